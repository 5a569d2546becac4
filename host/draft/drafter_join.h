/*
 * Combines several drafters, the parts, into one. The candidates of a node are
 * those of all parts, the likeliest first; a token that several parts propose
 * has the highest of their probabilities. The parts are called in order, until
 * the candidates of the node have half of the probability. A drafter that
 * seldom has candidates, but is cheap and reliable, should therefore precede
 * one that runs a model.
 *
 * Each part drafts into its own tree, which grows as the part is called, so a
 * part does not depend on the others. A part that is not called in a cycle of
 * drafting and verification does no work in that cycle.
 */
#ifndef HOST_DRAFT_DRAFTER_JOIN_H
#define HOST_DRAFT_DRAFTER_JOIN_H

struct drafter;
struct err;

/* Open a drafter that combines part[n]. The array and its drafters are
 * borrowed. out->batch is that of part[0]. Returns 0 or -ENOMEM. */
int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *);

#endif
