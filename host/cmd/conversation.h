/*
 * A conversation with a model for `tandem chat`: turns of the user and answers,
 * settings that change between turns, and commands such as /set. The caller
 * reads the user's turns from the input, and owns the options, which /set
 * changes. Single-threaded.
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

/* Sampling options of an answer; /set changes them between turns. */
struct drawing {
	int64_t predict, top_k, repeat_last, seed;
	double temperature, top_p, min_p, repeat_penalty;
};

/* For i = 0, return the table of the options that struct drawing stores; for
 * any other i, return NULL (see opt_tables). */
const struct opt_table *drawing_tables(size_t i);

struct conversation {
	struct opt_values *values;
	const char *model_path;
	bool as_json; /* print a JSON object for each turn */
	struct tandem *tandem;
	struct talk talk;
	/* Taken from the library handle `tandem`: the tokenizer, the context
	 * size in tokens, and whether turns are joined without a chat template,
	 * because the model has no template that Tandem supports. */
	const struct tokenizer *tokenizer;
	uint32_t room;
	bool plain;
	/* [n_set] copies of the arguments of /set, which `values` points
	 * into */
	char **set;
	size_t n_set;
	unsigned turns;
	/* The answer that is being generated: */
	struct strbuf text;
	struct token_list tokens;
	bool newline_due;
	int write_errno;
	struct tandem_result last; /* result of the last answer */
	/* whether at least one turn or command failed; the exit status then is
	 * EXIT_FAIL if the input is not a terminal */
	bool failed;
};

/* Read the model into the handle `tandem`, which cmd_create() has made, and
 * start the device process. Returns 0 or a negative errno. */
int conversation_start(struct conversation *, struct err *);
/* Close the handle. Returns the result of tandem_end(), or 0 if there is no
 * handle. */
int conversation_stop(struct conversation *, struct err *);
void conversation_release(struct conversation *);

/* Generate the answer to a user's turn. On success, the turn and the answer
 * become part of the conversation; on failure, neither does. Returns 0 or a
 * negative errno. */
int conversation_answer(
	struct conversation *, const struct strbuf *turn, struct err *);

/* Set the system prompt; "" means no system prompt. Returns 0 or a negative
 * errno. */
int conversation_set_system(
	struct conversation *, const char *text, struct err *);
/* Load a conversation from a file. If `stands` is true, options that were given
 * on the command line keep their values. Returns 0 or a negative errno. */
int conversation_load(
	struct conversation *, const char *path, bool stands, struct err *);

#define CONVERSATION_QUIT 1

/* Run a command line that begins with "/". Returns 0, CONVERSATION_QUIT if the
 * conversation must end, or a negative errno. */
int conversation_command(struct conversation *, const char *line, struct err *);

#endif
