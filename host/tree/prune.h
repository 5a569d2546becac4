/*
 * Pruning of a token tree in the middle of its verification (Lever, section
 * 4.3): rows that verification will probably not reach skip the upper layers.
 * Pruning can only shorten the accepted path, never change its tokens, as the
 * ancestors of every kept node are kept too.
 *
 * A predictor at an early-exit layer scores the candidates of each node
 * (equation 7). The scores also of shadow tokens, which are candidates that did
 * not become nodes, and the draft's probabilities give an estimate of each
 * candidate's probability (calibration.h). The merit of a row is the product of
 * the estimates along its path. So no row is better than its parent, and the
 * best rows to keep are a prefix of the rows by falling merit.
 *
 * The rule is that of growth (build.h): the prefix with the highest rate is
 * kept, which is the expected number of tokens divided by the time of the
 * cycle. So a row stays if its merit is at least the rate times what the row
 * adds to the time of the upper layers.
 */
#ifndef HOST_TREE_PRUNE_H
#define HOST_TREE_PRUNE_H

#include "host/tree/calibration.h"

#include <stdbool.h>
#include <stdint.h>

struct gain_rule;
struct pass_cost;
struct tree;

struct prune_opts {
	/* Keep all rows whose merit is at least this, whatever the costs are;
	 * negative: keep what pays. */
	double threshold;
	/* Include shadow tokens. If false, an only child is assumed to be
	 * certain, for ablation studies. */
	bool shadow;
	struct calibration calibration;
	/* Reliability and costs. If no cost is known, all rows are kept. */
	const struct gain_rule *rule;
	const struct pass_cost *cost;
	double lower;    /* share of the layers before the exit layer */
	double drafting; /* time in which this tree was drafted */
};

/* Write to score[n] the predictor's scores of token[n] after `node`. */
typedef void prune_score(void *arg, uint32_t node, const int32_t *token,
	uint32_t n, float *score);

struct prune_result {
	/* The first three are arrays of the caller. [tree->capacity] the kept
	 * nodes in ascending order, the root first. */
	uint32_t *keep;
	/* [tree->capacity] estimated probability that verification reaches the
	 * node */
	double *merit;
	/* [tree->capacity][tree->k] the predictor's scores of each node's
	 * candidates. The first one is NAN if the node has no children or if
	 * one of its scores is not finite. */
	float *score;
	uint32_t n;         /* number of kept nodes */
	double kept_tokens; /* sum of the merits of these */
	double all_tokens;  /* sum of all merits */
	/* For the cost model: number of tokens scored, and of sequential steps
	 * over nodes. */
	uint64_t scored, steps;
};

/* The caller provides the three arrays of *out; all other members are set. A
 * node's children must be the first of its candidates. */
void prune_tree(const struct tree *, const struct prune_opts *, prune_score *,
	void *arg, struct prune_result *out);

/*
 * Learn from the verification of a tree that prune_tree has scored: it accepted
 * path[0] < path[1] < ... [n] (without the root) and then drew `next`.
 */
void prune_saw(struct prune_opts *, const struct tree *, const float *score,
	const uint32_t *path, uint32_t n, int32_t next);

#endif
