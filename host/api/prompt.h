/*
 * Converts prompts to tokens: applies the chat template, recognizes special
 * tokens, adds the beginning-of-text token, and checks that the prompt fits
 * into the context. All calls must be made on one thread.
 */
#ifndef HOST_API_PROMPT_H
#define HOST_API_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chat_tools;
struct decoder;
struct err;
struct tandem_turn;
struct token_list;

struct prompt {
	const char *text;
	size_t len;
	/* with `chat`: text of the system turn; NULL if there is none */
	const char *system;
	/* apply the chat template, with `text` as a user's turn */
	bool chat;
	/* [n_turns] with `chat`: a conversation that is used instead of `text`
	 * and `system`; NULL if there is none */
	const struct tandem_turn *turns;
	size_t n_turns;
	/* the tools that the prompt lists; NULL if there are none */
	const struct chat_tools *tools;
	bool special; /* recognize special tokens in the text */
	bool no_bos;  /* do not add a beginning-of-text token */
	/* add an end-of-text token if the model was trained with this token at
	 * the end of prompts */
	bool eos;
};

/*
 * Append the prompt's tokens to *out. Returns 0, -ENOTSUP if the model's chat
 * template is not supported, or -EINVAL if the template does not allow a role
 * or the order of the roles.
 */
int prompt_read(const struct decoder *, const struct prompt *,
	struct token_list *out, struct err *);

/* Check that the context has room for a prompt of n tokens, plus one generated
 * token unless n_predict is 0. Returns 0, or -EFBIG with a message that
 * suggests a remedy. */
int prompt_check_room(const struct decoder *, size_t n, uint64_t n_predict,
	uint32_t context, struct err *);

#endif
