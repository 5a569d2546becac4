/*
 * A conversation with a model: turns that are answered, settings that change
 * from turn to turn, and commands. What `tandem chat` is made of; where its
 * turns come from it does not know. The options are the caller's, and what /set
 * says is written to them. One thread.
 */
#ifndef HOST_CMD_CONVERSATION_H
#define HOST_CMD_CONVERSATION_H

#include "base/opt.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/cmd/talk.h"
#include "host/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* How answers are drawn; /set changes it from turn to turn. */
struct drawing {
	int64_t predict, top_k, repeat_last, seed;
	double temperature, top_p, min_p, repeat_penalty;
};

extern const struct opt_table drawing_table;
const struct opt_table *drawing_tables(size_t i); /* it alone */

struct conversation {
	struct opt_values *asked;
	const char *model_path;
	bool as_json; /* an object a turn in place of the answer */
	struct tandem *tandem;
	struct talk talk;
	/* Of the handle: tokens there is room for; whether the model has no
	 * template that is known. */
	const struct tokenizer *tokenizer;
	uint32_t room;
	bool plain;
	char **set; /* copies of what /set said, which `asked` borrows */
	size_t n_set;
	unsigned turns;
	/* The answer being written. */
	struct strbuf text;
	struct token_list tokens;
	bool newline_due;
	int write_errno;
	struct tandem_result last; /* of the last answer */
	bool failed; /* a turn was not answered: the exit status of a pipe */
};

/* The handle (cmd_create) reads its model, and its pair is started. */
int conversation_start(struct conversation *, struct err *);
/* What tandem_end says; there may be none. */
int conversation_stop(struct conversation *, struct err *);
void conversation_release(struct conversation *);

/* The turn and its answer become part of what was said, or neither does. */
int conversation_answer(
	struct conversation *, const struct strbuf *said, struct err *);

/* "" is none. */
int conversation_set_system(
	struct conversation *, const char *text, struct err *);
/* What the command line says stays where it `stands`. */
int conversation_load(
	struct conversation *, const char *path, bool stands, struct err *);

#define CONVERSATION_QUIT 1

/* A line that begins with a /. 0, CONVERSATION_QUIT, or -errno. */
int conversation_command(struct conversation *, const char *line, struct err *);

#endif
