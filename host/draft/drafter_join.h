/*
 * Several drafters as one: the candidates of a node are those of all parts, the
 * likeliest first; a token that several parts name has the highest of their
 * probabilities. The parts are called in their order, until the candidates of a
 * node make up half of the probability. So a drafter that seldom answers, but
 * is cheap and right, goes before one that computes.
 *
 * Each part drafts into a tree of its own, which grows as the part is called,
 * so no part needs to know of the others; a part that is not called in a cycle
 * does no work in it.
 */
#ifndef HOST_DRAFT_DRAFTER_JOIN_H
#define HOST_DRAFT_DRAFTER_JOIN_H

struct drafter;
struct err;

/* part[n] is borrowed, with its drafters. out->batch is the first part's. */
int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *);

#endif
