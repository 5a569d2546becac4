/*
 * Hidden states from the middle of the model (session_opts.tap_layers) that
 * passes leave, kept for the tokens of a text, so that a reward model that
 * scores by them has nothing to compute again. Copies are charged to the
 * phone's CPU. The only error is -ENOMEM. One thread.
 */
#ifndef HOST_METHOD_TAPPED_H
#define HOST_METHOD_TAPPED_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct generation;
struct session;

struct tapped {
	float *state; /* [n][n_embd], of the first n tokens */
	size_t n, room;
};

/* method_prefill. If the session taps layers, the states of the whole prompt
 * are kept; what SESSION_TEXT has cached has none, so it is computed again. */
int tapped_prefill(struct tapped *, struct session *, const struct generation *,
	uint32_t *last_row, struct err *);

/* Keep the state of `row` for token `at`. A state that is kept already stays.
 * No effect if the session taps no layers. */
int tapped_keep(struct tapped *, struct session *, size_t at, uint32_t row);

/* Copy the states of *from to an empty *to. */
int tapped_copy(struct tapped *to, const struct tapped *from, struct session *);

void tapped_release(struct tapped *);

#endif
