/*
 * A conversation: turns of system, user and assistant. Answers keep their
 * tokens, so that the next prompt begins with exactly the previous one. Stored
 * in a file as plain JSON: the turns, and settings by option names. One thread.
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
	const char *role; /* one of three constants */
	char *text;
	size_t bytes;
	int32_t *tokens; /* NULL: unknown */
	size_t n_tokens;
};

/* Zero-initialise. A system turn is always the first. */
struct talk {
	struct talk_turn *turn;
	size_t n, cap;
};

void talk_release(struct talk *);

/* Add a turn; an answer's tokens are copied. -ENOMEM. */
int talk_add(struct talk *, const char *role, const char *text, size_t bytes,
	const struct token_list *tokens, struct err *);
/* Remove the last turn. */
void talk_drop(struct talk *);
/* NULL: no system turn. */
int talk_set_system(struct talk *, const char *text, struct err *);
/* Remove all but the system turn. */
void talk_reset(struct talk *);

/* The turns for a request; the caller frees them. NULL: no memory. */
struct tandem_turn *talk_turns(const struct talk *);

/*
 * talk_save writes the whole file or nothing; `settings` is an object.
 * talk_load: the caller releases *settings. -EINVAL describes what is wrong
 * with the file.
 */
int talk_save(
	const struct talk *, json_t *settings, const char *path, struct err *);
int talk_load(
	struct talk *out, json_t **settings, const char *path, struct err *);

#endif
