/*
 * States in the middle of the model (session_opts.tap_layers), which passes
 * leave behind: kept of the tokens of a text, so that who judges by them has
 * nothing to compute again. What is copied is priced as the CPU's. -ENOMEM is
 * all that goes wrong. One thread.
 */
#ifndef HOST_METHOD_TAPPED_H
#define HOST_METHOD_TAPPED_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct generation;
struct session;

struct tapped {
	float *state;   /* [n][n_embd], of the first tokens */
	size_t n, room; /* all zero: of none */
};

/* method_prefill; where the session has states those of the whole prompt are
 * kept, of which nothing that was cached tells any. */
int tapped_prefill(struct tapped *, struct session *, const struct generation *,
	uint32_t *last_row, struct err *);

/* That of token `at` is the row's; what is there already stays. Nothing where
 * the session has none. */
int tapped_keep(struct tapped *, struct session *, size_t at, uint32_t row);

/* An empty one has what the other has. */
int tapped_copy(struct tapped *to, const struct tapped *from, struct session *);

void tapped_release(struct tapped *);

#endif
