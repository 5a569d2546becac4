/*
 * Prompts to tokens: chat template, special tokens, beginning-of-text token,
 * and the check that the prompt fits into the context. One thread.
 */
#ifndef HOST_API_PROMPT_H
#define HOST_API_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decoder;
struct err;
struct tandem_turn;
struct token_list;

struct prompt {
	const char *text;
	size_t len;
	const char *system; /* system turn, with chat; NULL: none */
	bool chat;          /* the text is a user's turn */
	const struct tandem_turn *turns; /* [n_turns], with chat: replace text
					  * and system; NULL: none */
	size_t n_turns;
	bool special; /* recognize special tokens in the text */
	bool no_bos;  /* add no beginning-of-text token */
};

/* Append the prompt's tokens. -ENOTSUP if the model's chat template is not
 * known; -EINVAL for unknown roles and for orders that the template refuses. */
int prompt_read(const struct decoder *, const struct prompt *,
	struct token_list *out, struct err *);

/* Whether the context has room for a prompt of n tokens and, unless n_predict
 * is 0, one more: 0, or -EFBIG with what to try. */
int prompt_check_room(const struct decoder *, size_t n, uint64_t n_predict,
	uint32_t context, struct err *);

#endif
