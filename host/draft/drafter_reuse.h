/*
 * Draft reuse (sd.npu, section 3.4): tokens that verification rejected may
 * still occur later in the output. Where a draft x departs from the target's
 * output at x[e], there are three cases. Either the draft is wrong from x[e]
 * on; or the target inserted something before x[e] (table 2, "missing"), and
 * x[e] and the tokens after it will follow; or the target used other words for
 * a while ("synonym"), and some later part of x will follow. The target's own
 * predictions on the rejected path distinguish these cases: over all paths of
 * the tree, the drafter looks for the longest run of at least REUSE_RUN tokens
 * after the rejected token that the target predicted (equation 3). Both that
 * run and the draft from x[e] to its end are drafted again.
 *
 * These chains expire after a few passes, or earlier if together they have more
 * tokens than `room`. Not thread-safe.
 */
#ifndef HOST_DRAFT_DRAFTER_REUSE_H
#define HOST_DRAFT_DRAFTER_REUSE_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct source;

#define REUSE_RUN 2

struct reuse_options {
	uint32_t age;  /* passes for which a chain is kept, at least one */
	uint32_t room; /* most tokens of all kept chains together */
	/* Use the target's predictions. This costs a product with the output
	 * matrix for every row of a tree. If false, every rejected path is kept
	 * whole. */
	bool checked;
};

/* Open the source of guesses, for trees of up to `rows` rows. Returns 0 or
 * -ENOMEM. */
int reuse_open(struct source *out, const struct reuse_options *, uint32_t rows,
	struct err *);

#endif
