/*
 * Draft reuse (sd.npu, 3.4): tokens that verification rejected may still come.
 * Where a draft x departs from the target's text at x[e], either the draft is
 * wrong there and after, or the target inserted something first (table 2,
 * "missing": x[e] and on will come), or it used other words for a while
 * ("synonym": some later part of x will come). The target's own predictions on
 * the rejected path separate these cases: the longest run of at least REUSE_RUN
 * tokens, after the rejected token, that the target predicted (equation 3),
 * over all paths of the tree. Both that run and the draft from x[e] to its end
 * are drafted again.
 *
 * These chains expire after a few passes, or earlier if they have more tokens
 * than a pass has room for. One thread.
 */
#ifndef HOST_DRAFT_DRAFTER_REUSE_H
#define HOST_DRAFT_DRAFTER_REUSE_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct source;

#define REUSE_RUN 2

struct reuse_options {
	uint32_t age;  /* passes that a chain lives for, at least one */
	uint32_t room; /* tokens of all live chains, at most */
	/* Use the target's predictions, which costs the output matrix for all
	 * rows of a tree; without it every rejected path is kept whole. */
	bool checked;
};

/* For trees of at most `rows` rows. -ENOMEM. */
int reuse_open(struct source *out, const struct reuse_options *, uint32_t rows,
	struct err *);

#endif
