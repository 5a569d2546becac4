/*
 * Conservative pruning of a token tree in the middle of its verification
 * (Lever, section 4.3): rows that an exit predictor thinks little of do not go
 * through the upper layers. What is removed can only shorten what is accepted,
 * never change it, because every kept node keeps its ancestors.
 *
 * sigma of an edge (equation 11) is the softmax of the predictor's scores over
 * the candidates behind the parent: its children, and the shadow tokens, which
 * were candidates of the draft and did not become nodes.
 */
#ifndef HOST_TREE_PRUNE_H
#define HOST_TREE_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

struct tree;

struct prune_opts {
	float theta;       /* edges of sigma below it are removable */
	float temperature; /* of the softmax over candidates, > 0; 1 */
	/* Of nodes no deeper than breadth_depth (1) the edges to the `breadth`
	 * (3) best children of sigma from breadth_theta (theta / 2) on stay. */
	uint32_t breadth, breadth_depth;
	float breadth_theta;
	/* Where fewer rows or leaves than these (4 and 2) are left, or less
	 * than this share (0.95) of the tokens that the tree promised, rows are
	 * added back, those of the most merit first, until that is no more so.
	 */
	uint32_t min_rows, min_leaves;
	float retain;
	/* For ablations, both normally true: candidates that are no nodes count
	 * in the softmax; backbone (from the root to the best child, and so on
	 * to a leaf), breadth and adding back apply. */
	bool shadow, safeguards;
};

/* The defaults for trees of k >= 1 candidates a node: theta = 1 / (2 k). */
struct prune_opts prune_defaults(uint32_t k);

/* score[i] of token[i], i < n, behind a node. */
typedef void prune_score(void *arg, uint32_t node, const int32_t *token,
	uint32_t n, float *score);

/* What there was too little of when all that is below the threshold was cut;
 * of several the first. */
enum prune_lack {
	PRUNE_LACKS_NOTHING,
	PRUNE_LACKS_ROWS,
	PRUNE_LACKS_LEAVES,
	PRUNE_LACKS_TOKENS,
};

struct prune_result {
	/* The caller's, [tree->capacity] each. keep: the nodes that stay,
	 * ascending, the root first; each one's parent stays. */
	uint32_t *keep;
	/* Of the edge that leads to each node; of the root 1. It is 0 below
	 * what the threshold cuts, where nothing is scored. */
	float *sigma;
	/* How likely the text is to come to the node, by the draft and, where
	 * it was asked, by the predictor, an edge the geometric mean of both.
	 */
	double *merit;
	uint32_t n;    /* nodes that stay */
	uint32_t back; /* of these were below the threshold, and are back */
	enum prune_lack lack;
	/* For who prices it: tokens scored, and nodes looked at one after the
	 * other. */
	uint64_t scored, steps;
};

/* Arrays of *out are given, the rest is found. */
void prune_tree(const struct tree *, const struct prune_opts *, prune_score *,
	void *arg, struct prune_result *out);

#endif
