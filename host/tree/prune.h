/*
 * Conservative pruning of a token tree in the middle of its verification
 * (Lever, section 4.3): rows to which a predictor at an early-exit layer gives
 * a low probability skip the upper layers. Pruning can only shorten the
 * accepted path, never change its tokens, as the ancestors of every kept node
 * are kept too.
 *
 * The sigma of an edge (equation 11) is the softmax of the predictor's scores
 * over the parent's candidates: its children, and the shadow tokens, which are
 * candidates that did not become nodes. Edges with a low sigma are cut, except
 * for safeguards. If that leaves too few rows, leaves or expected tokens, cut
 * nodes are added back by falling merit. The merit is an estimate of a path's
 * probability from both the draft and the predictor.
 */
#ifndef HOST_TREE_PRUNE_H
#define HOST_TREE_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

struct tree;

struct prune_opts {
	float theta; /* edges with a smaller sigma may be cut */
	/* temperature of the softmax over candidates, > 0; default 1 */
	float temperature;
	/* For nodes no deeper than breadth_depth (default 1), keep the edges to
	 * the `breadth` (default 3) best children with a sigma of at least
	 * breadth_theta (default theta / 2). */
	uint32_t breadth, breadth_depth;
	float breadth_theta;
	/* After the cuts, if fewer than min_rows rows (default 4) or min_leaves
	 * leaves (default 2) are left, or less than the share `retain` (default
	 * 0.95) of the tree's expected tokens, add rows back, highest merit
	 * first, until the limits are met. */
	uint32_t min_rows, min_leaves;
	float retain;
	/* For ablation studies; both are normally true. shadow: include
	 * candidates without nodes in the softmax. safeguards: keep the best
	 * child of every node on a path from the root to a leaf (the backbone),
	 * apply `breadth`, and add rows back. */
	bool shadow, safeguards;
};

/* The defaults for trees with k >= 1 candidates per node; theta is 1 / (2
 * k). */
struct prune_opts prune_defaults(uint32_t k);

/* Write to score[n] the predictor's scores of token[n] after `node`. */
typedef void prune_score(void *arg, uint32_t node, const int32_t *token,
	uint32_t n, float *score);

/* The first limit that was not met after all edges with a low sigma were
 * cut. */
enum prune_lack {
	PRUNE_LACKS_NOTHING,
	PRUNE_LACKS_ROWS,
	PRUNE_LACKS_LEAVES,
	PRUNE_LACKS_TOKENS,
};

struct prune_result {
	/* keep, sigma and merit are arrays of the caller, [tree->capacity]
	 * each. keep: the kept nodes in ascending order, the root first. If a
	 * node is kept, so is its parent. */
	uint32_t *keep;
	/* Sigma of the edge to each node; 1 for the root. 0 below a cut edge,
	 * where no node is scored. */
	float *sigma;
	/* Estimated probability that the output reaches the node: the product,
	 * over the edges from the root, of the geometric mean of the draft's
	 * and the predictor's probabilities. Where the predictor did not score,
	 * only the draft's is used. */
	double *merit;
	uint32_t n;    /* number of kept nodes */
	uint32_t back; /* number of kept nodes that were cut and added back */
	enum prune_lack lack;
	/* For the cost model: number of tokens scored, and of sequential steps
	 * over nodes. */
	uint64_t scored, steps;
};

/* The caller provides the three arrays of *out; all other members are set. */
void prune_tree(const struct tree *, const struct prune_opts *, prune_score *,
	void *arg, struct prune_result *out);

#endif
