/*
 * The turns of a conversation: system, user and assistant. Answers keep their
 * tokens, so that the next prompt begins with exactly the tokens of the
 * previous prompt and answer. The keys and values of these tokens can then be
 * reused from the KV cache. A conversation is stored in a file as JSON: its
 * turns, and settings under their option names. Single-threaded.
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
	/* points to one of the constant strings "system", "user" and
	 * "assistant" */
	const char *role;
	char *text;
	size_t bytes;
	int32_t *tokens; /* NULL if the tokens are not known */
	size_t n_tokens;
};

/* The caller zeroes the struct. If there is a system turn, it is turn[0]. */
struct talk {
	struct talk_turn *turn;
	size_t n, cap;
};

void talk_release(struct talk *);

/* Add a turn. Copies the text, and the tokens unless `tokens` is NULL. Returns
 * 0 or -ENOMEM. */
int talk_add(struct talk *, const char *role, const char *text, size_t bytes,
	const struct token_list *tokens, struct err *);
/* Remove the last turns until n are left. */
void talk_cut(struct talk *, size_t n);
/* Set or replace the system turn; NULL removes it. Returns 0 or a negative
 * errno. */
int talk_set_system(struct talk *, const char *text, struct err *);
/* Remove all but the system turn. */
void talk_reset(struct talk *);

/* Return the turns for a request, or NULL if out of memory. The caller frees
 * the array; the texts belong to `talk`. */
struct tandem_turn *talk_turns(const struct talk *);

/*
 * Save a conversation to a file, and load it.
 *
 * talk_save() writes the whole file or nothing; `settings` is a JSON object,
 * which the caller still owns. talk_load() stores the settings in *settings,
 * which the caller releases.
 *
 * Both functions return 0 or a negative errno. If a file is not valid,
 * talk_load() returns -EINVAL and the message names the fault.
 */
int talk_save(
	const struct talk *, json_t *settings, const char *path, struct err *);
int talk_load(
	struct talk *out, json_t **settings, const char *path, struct err *);

#endif
