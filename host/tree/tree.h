/*
 * A token tree: drafted tokens that may follow a token sequence, which the
 * target model verifies in one pass. Node 0 is the root, the last token of the
 * sequence, whose keys and values are not yet in the target's cache. Parents
 * come before their children, and no two children of a node are the same token.
 *
 * An expanded node has candidates: the likeliest next tokens according to the
 * drafter. Only the candidates that a builder adds become nodes; the others
 * still contribute to estimates of the draft's certainty.
 *
 * The capacity is fixed, and nothing is allocated after opening. Not
 * thread-safe.
 */
#ifndef HOST_TREE_TREE_H
#define HOST_TREE_TREE_H

#include "host/tree/draft_source.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

#define TREE_CANDIDATES 16 /* maximum number of candidates of a node */

struct candidate {
	int32_t token;
	float q; /* the draft's probability that `token` follows the node */
	enum draft_source source;
};

struct tree {
	uint32_t n;        /* nodes, including the root */
	uint32_t capacity; /* maximum number of nodes */
	/* maximum number of candidates of an expanded node */
	uint32_t k;
	uint32_t leaves;      /* nodes without children */
	int32_t *token;       /* [n] */
	int32_t *parent;      /* [n]; -1 for the root */
	uint32_t *depth;      /* [n]; 0 for the root */
	uint32_t *n_children; /* [n] */
	/* [n] index of the drafter's data about the node; 0 for a new node.
	 * Only the drafter uses this array. */
	uint32_t *row;
	/* [n] the draft's probability that this node's token follows its
	 * parent; 1 for the root */
	float *q;
	enum draft_source
		/* [n] source of the node's token; unused for the root */
		*source;
	double *path; /* [n] product of q from the root to the node */
	/* [capacity] n_candidates: number of candidates that may become nodes.
	 * n_ends: number of candidates that end the sequence (tree_end). Both
	 * numbers are 0 if the node is not expanded. */
	uint32_t *n_candidates, *n_ends;
	/* [capacity][k] the n_candidates candidates, followed by the n_ends
	 * candidates that end the sequence; each of the two groups is sorted by
	 * descending q, candidates with equal q by ascending token */
	struct candidate *candidate;
	/* Number of sequential steps over nodes that builders made and whose
	 * time is not yet in the simulated phone's time. Builders add to this
	 * counter; their caller adds the time of these steps to the phone's
	 * time and sets the counter to 0. */
	uint64_t steps;
	/* Scratch memory of tree_keep. */
	void *spare;
	uint32_t *number;
};

/*
 * Open a tree with room for `capacity` >= 1 nodes with 1 <= k <=
 * TREE_CANDIDATES candidates each. Call tree_reset before use. Returns 0 or
 * -ENOMEM.
 */
int tree_open(struct tree **out, uint32_t capacity, uint32_t k, struct err *);
void tree_close(struct tree *);

/* Reduce the tree to a root that is not expanded. */
void tree_reset(struct tree *, int32_t root);

/*
 * Add candidate c of `parent` as a node, 0 <= c.q <= 1, and return the node.
 * The tree must have room, and `parent` must not have a child with the same
 * token.
 */
uint32_t tree_add(struct tree *, uint32_t parent, struct candidate c);

/*
 * Move those candidates of a newly expanded node that end the sequence (for
 * which `ends` returns true) to the end of the node's list of candidates.
 * Nothing is drafted after these candidates, so they never become nodes.
 * Verification can still accept their tokens.
 */
void tree_end(struct tree *, uint32_t node,
	bool (*ends)(const void *arg, int32_t token), const void *arg);

/* Number of all candidates of a node, including those that end the sequence. */
static inline uint32_t tree_expects(const struct tree *t, uint32_t node)
{
	return t->n_candidates[node] + t->n_ends[node];
}

/* Returns the child of `node` with this token, or -1 if no child has this
 * token. */
int32_t tree_child(const struct tree *, uint32_t node, int32_t token);

/*
 * Keep only the nodes node[0] = 0, node[1] ... node[n - 1], and renumber them
 * in this order. Each node must come after its parent. All other nodes are
 * dropped. Candidates and the drafter's rows move with their nodes.
 */
void tree_keep(struct tree *, const uint32_t *node, uint32_t n);

#endif
