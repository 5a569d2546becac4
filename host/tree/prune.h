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
	/* Fewer rows or leaves than these (4 and 2) were pruned too hard, and
	 * nothing is. */
	uint32_t min_rows, min_leaves;
	/* For ablations, both normally true: candidates that are no nodes count
	 * in the softmax; backbone (from the root to the best child, and so on
	 * to a leaf), breadth and the minima apply. */
	bool shadow, safeguards;
};

/* The defaults for trees of k >= 1 candidates a node: theta = 1 / (2 k). */
struct prune_opts prune_defaults(uint32_t k);

/* score[i] of token[i], i < n, behind a node. */
typedef void prune_score(void *arg, uint32_t node, const int32_t *token,
	uint32_t n, float *score);

/*
 * keep[tree->capacity]: the nodes that stay, ascending, the root first; returns
 * how many. Each kept node's parent is kept.
 *
 * sigma[tree->capacity]: of the edge that leads to each node; of the root 1. It
 * is 0 below what the threshold removes, where nothing is scored: there it
 * cannot matter.
 */
uint32_t prune_tree(const struct tree *, const struct prune_opts *,
	prune_score *, void *arg, float *sigma, uint32_t *keep);

#endif
