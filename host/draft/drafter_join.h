/*
 * Drafters that draft together: a node's candidates are those of all of them,
 * the likeliest first, a token that several name with the most that one gives
 * it. They are asked in their order, and no more of them once what is known
 * makes half of the probability: so what answers seldom, cheaply and well goes
 * before what works for its answers.
 *
 * Each has a tree of its own that grows as it is asked, so none needs to know
 * of the others; one that is not asked in a cycle works nothing in it.
 */
#ifndef HOST_DRAFT_DRAFTER_JOIN_H
#define HOST_DRAFT_DRAFTER_JOIN_H

struct drafter;
struct err;

/* They are borrowed, part[n] too. out->batch is that of the first. */
int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *);

#endif
