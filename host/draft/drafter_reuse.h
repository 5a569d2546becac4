/*
 * Draft reuse (sd.npu, 3.4): what verification rejected may come later. Where a
 * draft x leaves what the target wrote, at x[e], it was wrong in what follows,
 * or the target put something in (table 2, "missing": x[e] and on will come),
 * or it said a few words otherwise ("synonym": some later x and on will). The
 * target's own predictions tell which part of it still made sense: the longest
 * run of at least REUSE_RUN tokens that it predicted behind the rejected token
 * (equation 3), over all paths of the tree. That run is drafted again, and so
 * is the draft from x[e] on to its end.
 *
 * They live for a few steps and are then forgotten, sooner where there are more
 * of their tokens than a pass has rows. One thread.
 */
#ifndef HOST_DRAFT_DRAFTER_REUSE_H
#define HOST_DRAFT_DRAFTER_REUSE_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct source;

#define REUSE_RUN 2

struct reuse_options {
	uint32_t age;  /* steps that a chain lives, at least one */
	uint32_t room; /* tokens of all chains that live */
	/* The target's predictions are asked for, which costs its output matrix
	 * for all rows of a tree; else all that was rejected is kept. */
	bool checked;
};

/* Of trees of at most `rows` rows. -ENOMEM. */
int reuse_open(struct source *out, const struct reuse_options *, uint32_t rows,
	struct err *);

#endif
