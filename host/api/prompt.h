/*
 * From what a user says to the tokens that a text begins with: the chat
 * template where it is wanted, special tokens, the token that begins a text,
 * and whether it all has room. One thread.
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
	const char *system;              /* turn, with chat; NULL: none */
	bool chat;                       /* the text is a user's turn */
	const struct tandem_turn *turns; /* with chat: [n_turns] of them, in
					  * place of text and system */
	size_t n_turns;
	bool special; /* special tokens in the text are read as such */
	bool no_bos;  /* nothing stands before the text */
};

/* Append its tokens. -ENOTSUP without a chat template that is known; -EINVAL
 * for turns that are none, or in an order that it refuses. */
int prompt_read(const struct decoder *, const struct prompt *,
	struct token_list *out, struct err *);

/* Room in the context for a prompt of n tokens and the first of n_predict:
 * 0, or -EFBIG with what to try. */
int prompt_check_room(const struct decoder *, size_t n, uint64_t n_predict,
	uint32_t context, struct err *);

#endif
