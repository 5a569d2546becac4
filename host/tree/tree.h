/*
 * A token tree: drafted tokens that may follow a text, which the target
 * verifies in one pass. Node 0 is the root, the last token of the text, which
 * is not yet in the target's cache. Parents come before their children, and no
 * two children of a node are the same token.
 *
 * An expanded node has candidates: the likeliest next tokens by the drafter.
 * Only those that a builder adds become nodes; the others still contribute to
 * estimates of the draft's certainty.
 *
 * Fixed capacity, no allocation after opening. One thread.
 */
#ifndef HOST_TREE_TREE_H
#define HOST_TREE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define TREE_CANDIDATES 16 /* of a node, at most */

struct candidate {
	int32_t token;
	float q; /* the draft's probability after the node */
};

struct tree {
	uint32_t n;           /* nodes, including the root */
	uint32_t capacity;    /* most nodes */
	uint32_t k;           /* candidates of an expanded node, at most */
	uint32_t leaves;      /* nodes without children */
	int32_t *token;       /* [n] */
	int32_t *parent;      /* [n]; -1 for the root */
	uint32_t *depth;      /* [n]; 0 for the root */
	uint32_t *n_children; /* [n] */
	/* [n]; for the drafter: index of its data about the node. 0 for a new
	 * node. */
	uint32_t *row;
	float *q;     /* [n] of the node after its parent; root 1 */
	double *path; /* [n] product of q from the root down */
	/* [capacity] candidates that may become nodes, and after them those
	 * that end the text (tree_end); both 0: not expanded. */
	uint32_t *n_candidates, *n_ends;
	/* [capacity][k], each of the two parts by falling q, equal ones by
	 * rising token */
	struct candidate *candidate;
	/* For the cost model: sequential steps of builders over nodes. Builders
	 * add, the caller subtracts. */
	uint64_t steps;
	/* Buffers of tree_keep. */
	void *spare;
	uint32_t *number;
};

/*
 * Room for `capacity` >= 1 nodes of 1 <= k <= TREE_CANDIDATES candidates. Call
 * tree_reset before use. -ENOMEM.
 */
int tree_open(struct tree **out, uint32_t capacity, uint32_t k, struct err *);
void tree_close(struct tree *);

/* Make the tree a single root, not expanded. */
void tree_reset(struct tree *, int32_t root);

/*
 * Add candidate c of `parent` as a node, 0 <= c.q <= 1; returns it. There must
 * be room, and the parent must not have such a child yet.
 */
uint32_t tree_add(struct tree *, uint32_t parent, struct candidate c);

/*
 * Move the candidates of a newly expanded node that end the text to the end of
 * its list: nothing is drafted after them, and their own acceptance does not
 * depend on being in the tree.
 */
void tree_end(struct tree *, uint32_t node,
	bool (*ends)(const void *arg, int32_t token), const void *arg);

/* All candidates of a node, including those that end the text. */
static inline uint32_t tree_expects(const struct tree *t, uint32_t node)
{
	return t->n_candidates[node] + t->n_ends[node];
}

/* The child of `node` with that token, or -1. */
int32_t tree_child(const struct tree *, uint32_t node, int32_t token);

/*
 * Keep nodes node[0] = 0, node[1] ... node[n - 1], each listed after its
 * parent, and renumber them in that order; all others are dropped. Candidates
 * and the drafter's rows move with their nodes.
 */
void tree_keep(struct tree *, const uint32_t *node, uint32_t n);

#endif
