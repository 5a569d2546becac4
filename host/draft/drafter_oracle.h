/*
 * A drafter that is given the true continuation, so that speed can be measured
 * with models whose output is meaningless. An option sets how often the drafter
 * agrees with the target: one probability for all drafted tokens, or one for
 * each position of a draft.
 *
 * While a path agrees with the given sequence, the true next token has rank r =
 * 0, 1 ... among the candidates with probability P (1 - P)^r. The true token is
 * left out if r >= k, the tree's number of candidates per node. P may depend on
 * the depth of the node that has the candidates. The other candidates are
 * pseudo-random. After a path has left the sequence, all candidates are
 * pseudo-random. The candidate of rank r has the draft probability q = P (1 -
 * P)^r, which is the probability that it is right; a candidate whose q is 0 in
 * float32 is left out. With P = 0, however, all candidates are wrong and have q
 * = 0, so that the cost of verifying wrong tokens can be simulated. Every
 * choice is a pure function of the seed and the path (base/rng.h).
 */
#ifndef HOST_DRAFT_DRAFTER_ORACLE_H
#define HOST_DRAFT_DRAFTER_ORACLE_H

#include "host/model/shape_type.h"

#include <stddef.h>
#include <stdint.h>

struct shape;
struct drafter;
struct err;
struct soc;

#define ORACLE_POSITIONS 64

/* Acceptance by position: p[i], from 0 to 1, is the probability that the first
 * candidate of a tree node at depth i is the true next token, given that all
 * tokens on the path to the node are true. For depths from n on, p[n - 1] is
 * used. */
struct oracle_curve {
	double p[ORACLE_POSITIONS];
	uint32_t n; /* number of positions, at least 1 */
};

/*
 * Open an oracle. text[n], the prompt and its continuation, and the curve are
 * copied. Returns 0, -ENOMEM, or -EINVAL if the curve is out of range, if a
 * token of `text` is not in the vocabulary, or if the vocabulary has no more
 * than TREE_CANDIDATES tokens. Drafting takes no simulated time unless
 * drafter_oracle_price_as is called. Nodes are expanded one by one.
 */
int drafter_oracle_open(struct drafter *out, const int32_t *text, size_t n,
	const struct oracle_curve *, uint64_t seed, uint32_t n_vocab,
	struct err *);

/*
 * Count the time that a draft model with the dimensions `as` and matrices of
 * `type` would take on the CPU of the simulated phone. If `type` is F32, Q8_0
 * is used instead. A pass of this model expands up to `batch` nodes. If batch
 * is 0, the limits are the defaults of a draft model on the host
 * (DRAFT_TOGETHER and DRAFT_WEIGHED in drafting_options.h).
 */
void drafter_oracle_price_as(struct drafter *, const struct soc *,
	const struct shape *as, struct shape_type type, uint32_t batch);

#endif
