/*
 * Pruning of a token tree in the middle of its verification (Lever, section
 * 4.3): rows (nodes of the tree) that verification will probably not reach skip
 * the upper layers. Pruning can shorten the accepted path but never change its
 * tokens, because the ancestors of every kept node are kept too.
 *
 * A predictor at an early-exit layer scores the candidates of each node
 * (equation 7), and also shadow tokens, which are candidates that did not
 * become nodes. The scores and the draft's probabilities give an estimate of
 * each candidate's probability (calibration.h). The merit of a row is the
 * product of the estimates along its path. So no row has a larger merit than
 * its parent, and the best rows to keep are a prefix of the rows sorted by
 * descending merit.
 *
 * As when a tree is grown (build.h), the prefix with the highest rate is kept;
 * the rate is the expected number of tokens divided by the time of the cycle.
 * So a row is kept if its merit is at least the rate multiplied by the time
 * that the row adds in the upper layers.
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
	/* Keep all rows that verification reaches with at least this
	 * probability, whatever time they take. Negative: keep the rows with
	 * which the rate is highest. */
	double threshold;
	/* Whether to score shadow tokens, too: candidates that are not nodes.
	 * If false (for ablation studies), the probabilities of the children of
	 * a node are computed as if there were no other candidates: an only
	 * child gets what all candidates have together. */
	bool shadow;
	struct calibration calibration;
	/* rule: for the estimates of candidates' probabilities. cost: the cost
	 * model; if its costs are unknown and `threshold` is negative, all rows
	 * are kept. */
	const struct gain_rule *rule;
	const struct pass_cost *cost;
	/* share of the model's layers that come before the exit layer */
	double lower;
	double drafting; /* time that drafting this tree took */
};

/* Write to score[n] the exit predictor's scores of the tokens token[n] after
 * `node`. */
typedef void prune_score(void *arg, uint32_t node, const int32_t *token,
	uint32_t n, float *score);

struct prune_result {
	/* The caller provides memory for the arrays keep, merit and score.
	 * keep: [tree->capacity] the kept nodes in ascending order, the root
	 * first. */
	uint32_t *keep;
	/* [tree->capacity] estimated probability that verification reaches the
	 * node */
	double *merit;
	/* [tree->capacity][tree->k] the predictor's scores of each node's
	 * candidates. The first score of a node is NAN if the node has no
	 * children or if one of its scores is not finite. */
	float *score;
	uint32_t n; /* number of kept nodes */
	/* sum of the merits (probabilities of being reached) of the kept
	 * nodes */
	double kept_tokens;
	/* sum of the merits (probabilities of being reached) of all nodes */
	double all_tokens;
	/* Work whose time the caller adds to the simulated phone's time: number
	 * of scored tokens, and number of sequential steps over nodes. */
	uint64_t scored, steps;
};

/* Prune a tree. The caller provides the three arrays of *out; all other members
 * are set by this function. The children of a node must be its first
 * candidates. */
void prune_tree(const struct tree *, const struct prune_opts *, prune_score *,
	void *arg, struct prune_result *out);

/*
 * Learn from the verification of a tree that prune_tree has scored: the
 * verification accepted the n nodes path[0] < path[1] < ... (without the root)
 * and then drew `next`.
 */
void prune_saw(struct prune_opts *, const struct tree *, const float *score,
	const uint32_t *path, uint32_t n, int32_t next);

#endif
