/*
 * A conversation with a model: turns and answers, settings that change between
 * turns, and commands, for `tandem chat`. The source of the turns is the
 * caller's business. The caller owns the options, and /set writes to them. One
 * thread.
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

/* Sampling options of an answer; /set changes them from turn to turn. */
struct drawing {
	int64_t predict, top_k, repeat_last, seed;
	double temperature, top_p, min_p, repeat_penalty;
};

/* the table of struct drawing alone */
const struct opt_table *drawing_tables(size_t i);

struct conversation {
	struct opt_values *values;
	const char *model_path;
	bool as_json; /* print a JSON object for each turn */
	struct tandem *tandem;
	struct talk talk;
	/* From the handle: the context size in tokens, and whether the model
	 * has a template that Tandem supports. */
	const struct tokenizer *tokenizer;
	uint32_t room;
	bool plain;
	char **set; /* copies of the texts of /set, which `values` borrows */
	size_t n_set;
	unsigned turns;
	/* The answer that is being generated. */
	struct strbuf text;
	struct token_list tokens;
	bool newline_due;
	int write_errno;
	struct tandem_result last; /* of the last answer */
	bool failed; /* a turn had no answer; gives the exit status of a pipe */
};

/* Create the handle (cmd_create), read the model and start the pair. */
int conversation_start(struct conversation *, struct err *);
/* The result of tandem_end; 0 without a handle. */
int conversation_stop(struct conversation *, struct err *);
void conversation_release(struct conversation *);

/* Generate the answer to a turn. Both become part of the conversation, or
 * neither. */
int conversation_answer(
	struct conversation *, const struct strbuf *turn, struct err *);

/* "": no system prompt. */
int conversation_set_system(
	struct conversation *, const char *text, struct err *);
/* Options given on the command line keep their value (`stands`). */
int conversation_load(
	struct conversation *, const char *path, bool stands, struct err *);

#define CONVERSATION_QUIT 1

/* Run a line that begins with a /. Returns 0, CONVERSATION_QUIT, or -errno. */
int conversation_command(struct conversation *, const char *line, struct err *);

#endif
