/*
 * Hidden states from the middle of the model (session_opts.tap_layers), stored
 * for the tokens of a text as passes compute them. A reward model that reads
 * these states need not compute the tokens again. The time of copies counts as
 * time of the simulated phone's CPU. The functions return 0 or -ENOMEM. All
 * calls come from one thread.
 */
#ifndef HOST_SCHEDULER_TAPPED_H
#define HOST_SCHEDULER_TAPPED_H

#include <stddef.h>
#include <stdint.h>

struct session;

struct tapped {
	/* [n][n_embd] hidden states of the text's first n tokens */
	float *state;
	size_t n, room;
};

/* Store the hidden state of row `row` of the last pass as the state of token
 * `at`, unless that token has a state already. Does nothing if the session
 * keeps no states. */
int tapped_keep(struct tapped *, struct session *, size_t at, uint32_t row);

/* Copy the states of *from to *to, which must be empty. */
int tapped_copy(struct tapped *to, const struct tapped *from, struct session *);

void tapped_release(struct tapped *);

#endif
