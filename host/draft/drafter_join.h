/*
 * Combines several drafters, called parts, into one drafter, which pools their
 * candidates at every node. Part i proposes token x with probability q_i(x) and
 * is right with probability w_i q_i(x), where w_i is the part's weight. The
 * probability p(x) that x follows is 1 minus the probability that all parts are
 * wrong (noisy-or; Pearl, 1988):
 *
 *   p(x) = 1 - product over the parts i of (1 - min(1, w_i q_i(x)))
 *
 * The likeliest token keeps its p(x). If the p(x) of all tokens add up to more
 * than 1, the p(x) of the other tokens are reduced in proportion. The weight
 * w_i is learned from the accepted tokens by expectation maximization, one
 * token at a time (Cappe and Moulines, 2009). For an accepted token x, part i
 * is credited with w_i q_i(x) / p(x); w_i is the sum of these credits divided
 * by the sum of q_i over all candidates of the part at the same nodes. Each
 * part has three weights: for nodes where only this part has candidates, for
 * nodes where the best candidate of another part is the same token, and for
 * nodes where the best candidates of all other parts are different tokens.
 *
 * Parts that search text (drafter.searched) are called first. At nodes where
 * the p(x) of their candidates, pooled from these parts alone, add up to 0.9 or
 * more, the parts that run a model are not called. If a part that runs a model
 * is called for a node below such a node, the part also expands those ancestors
 * that it has not expanded yet.
 *
 * Each part drafts into its own tree, which grows as the part is called, so a
 * part does not depend on other parts. A part that is not called in a cycle of
 * drafting and verification does no work in that cycle.
 */
#ifndef HOST_DRAFT_DRAFTER_JOIN_H
#define HOST_DRAFT_DRAFTER_JOIN_H

struct drafter;
struct err;

/* Open a drafter that combines part[n], n <= DRAFT_PARTS. The order of the
 * parts does not affect the results. The caller keeps ownership of the array
 * and its drafters. Returns 0 or -ENOMEM. */
int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *);

#endif
