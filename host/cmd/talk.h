/*
 * A conversation: what system, user and assistant said, answers with the tokens
 * they were written in, so that the next prompt begins with the last one. It is
 * kept in a file as plain JSON: the turns, and settings by their options'
 * names. One thread.
 */
#ifndef HOST_CMD_TALK_H
#define HOST_CMD_TALK_H

#include "host/api/tandem.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct token_list;

struct talk_turn {
	const char *role; /* one of three that are constant */
	char *text;
	size_t bytes;
	int32_t *tokens; /* NULL: none are known */
	size_t n_tokens;
};

/* Zero-initialise; the system's turn, where there is one, is the first. */
struct talk {
	struct talk_turn *turn;
	size_t n, cap;
};

void talk_release(struct talk *);

/* Another turn; an answer's tokens are copied. -ENOMEM. */
int talk_add(struct talk *, const char *role, const char *text, size_t bytes,
	const struct token_list *tokens, struct err *);
/* The last one is taken back. */
void talk_drop(struct talk *);
/* NULL: no system's turn. */
int talk_set_system(struct talk *, const char *text, struct err *);
const char *talk_system(const struct talk *);
/* All but the system's turn go. */
void talk_reset(struct talk *);

/* For a request; free() it. NULL: no memory. */
struct tandem_turn *talk_turns(const struct talk *);

/*
 * To a file, all of it or nothing; `settings` is an object. From one: *settings
 * is the caller's to release. -EINVAL with what is wrong with the file.
 */
int talk_save(
	const struct talk *, json_t *settings, const char *path, struct err *);
int talk_load(
	struct talk *out, json_t **settings, const char *path, struct err *);

#endif
