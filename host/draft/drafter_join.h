/*
 * Combines several drafters, the parts, into one, which pools their candidates
 * at every node. A token x comes unless every part is wrong about it (noisy-or;
 * Pearl, 1988):
 *
 *   p(x) = 1 - product over the parts i of (1 - min(1, w_i q_i(x)))
 *
 * The likeliest token keeps this probability; the others share what it leaves.
 * The weight w_i is the share of a part's probabilities that came true. It is
 * learned from the accepted tokens by expectation maximization, one token at a
 * time (Cappe and Moulines, 2009): of an accepted token, a part is credited
 * with w_i q_i(x) / p(x). Each part has three weights: for nodes where it alone
 * has candidates, where another part has the same best one, and where the
 * others have only different ones.
 *
 * Parts that search text (drafter.searched) are called first. Where their
 * pooled probabilities add up to 0.9, no model is called. When it is called for
 * a node later, it expands all ancestors that it has not seen in the same call.
 *
 * Each part drafts into its own tree, which grows as the part is called, so a
 * part does not depend on the others. A part that is not called in a cycle of
 * drafting and verification does no work in that cycle.
 */
#ifndef HOST_DRAFT_DRAFTER_JOIN_H
#define HOST_DRAFT_DRAFTER_JOIN_H

struct drafter;
struct err;

/* Open a drafter that combines part[n], n <= DRAFT_PARTS; their order has no
 * influence. The array and its drafters are borrowed. Returns 0 or -ENOMEM. */
int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *);

#endif
