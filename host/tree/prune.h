/*
 * Conservative pruning of a token tree in the middle of its verification
 * (Lever, section 4.3): rows to which an exit predictor gives a low probability
 * skip the upper layers. Pruning can only shorten what is accepted, never
 * change it, as every kept node keeps its ancestors.
 *
 * The sigma of an edge (equation 11) is the softmax of the predictor's scores
 * over the parent's candidates: its children, and the shadow tokens, which are
 * candidates that did not become nodes. Edges with a low sigma are cut, except
 * for safeguards. If that leaves too few rows, leaves or expected tokens, cut
 * nodes are added back in the order of merit, an estimate of the probability of
 * a path from both the draft and the predictor.
 */
#ifndef HOST_TREE_PRUNE_H
#define HOST_TREE_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

struct tree;

struct prune_opts {
	float theta;       /* edges with a sigma below it may be cut */
	float temperature; /* of the softmax over candidates, > 0; 1 */
	/* For nodes no deeper than breadth_depth (1), keep the edges to the
	 * `breadth` (3) best children with a sigma of at least breadth_theta
	 * (theta / 2). */
	uint32_t breadth, breadth_depth;
	float breadth_theta;
	/* If fewer rows or leaves than these (4 and 2) are left, or less than
	 * this share (0.95) of the tree's expected tokens, add rows back,
	 * highest merit first, until that is corrected. */
	uint32_t min_rows, min_leaves;
	float retain;
	/* For ablations, both normally true: include candidates without nodes
	 * in the softmax; apply backbone (always keep the best child, from the
	 * root to a leaf), breadth and adding back. */
	bool shadow, safeguards;
};

/* The defaults for trees of k >= 1 candidates per node: theta = 1 / (2 k). */
struct prune_opts prune_defaults(uint32_t k);

/* Write score[i] of token[i], i < n, after a node. */
typedef void prune_score(void *arg, uint32_t node, const int32_t *token,
	uint32_t n, float *score);

/* What was too low after cutting everything below the threshold; the first of
 * several. */
enum prune_lack {
	PRUNE_LACKS_NOTHING,
	PRUNE_LACKS_ROWS,
	PRUNE_LACKS_LEAVES,
	PRUNE_LACKS_TOKENS,
};

struct prune_result {
	/* Arrays of the caller, [tree->capacity] each. keep: the nodes that
	 * stay, ascending, with the root first; each with its parent. */
	uint32_t *keep;
	/* Of the edge to each node; 1 for the root. 0 below a cut edge, where
	 * nothing is scored. */
	float *sigma;
	/* Estimated probability that the text reaches the node, by the draft
	 * and, where it scored, the predictor: the product over edges of the
	 * geometric mean of both. */
	double *merit;
	uint32_t n;    /* nodes that stay */
	uint32_t back; /* those of them that were cut and added back */
	enum prune_lack lack;
	/* For the cost model: tokens scored, and sequential steps over
	 * nodes. */
	uint64_t scored, steps;
};

/* The caller provides the arrays of *out; the rest is set. */
void prune_tree(const struct tree *, const struct prune_opts *, prune_score *,
	void *arg, struct prune_result *out);

#endif
