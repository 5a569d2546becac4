/*
 * A token tree as a method drafts it: tokens that may come behind a text, of
 * which the target verifies all in one pass. Node 0 is the root, the last
 * token of the text, which is not yet in the target's cache. Parents come
 * before their children, and no two children of a node are the same token.
 *
 * A node that the drafter has looked behind ("expanded") carries its
 * candidates: the likeliest tokens there, by the draft's word. Only those that
 * a builder adds become nodes; the others still tell how sure the draft was.
 *
 * Fixed room, no allocation after opening. One thread.
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
	float q; /* the draft's probability of it behind the node */
};

struct tree {
	uint32_t n;           /* nodes, the root among them */
	uint32_t capacity;    /* room for so many */
	uint32_t k;           /* candidates of an expanded node, at most */
	uint32_t leaves;      /* nodes without children */
	int32_t *token;       /* [n] */
	int32_t *parent;      /* [n]; -1 of the root */
	uint32_t *depth;      /* [n]; 0 of the root */
	uint32_t *n_children; /* [n] */
	/* [n]; the drafter's own: where it keeps what it computed of the node.
	 * 0 of a node just added. */
	uint32_t *row;
	float *q;     /* [n] of the node behind its parent; root 1 */
	double *path; /* [n] product of q from the root down */
	/* [capacity] that may become nodes, and behind them those that may not
	 * (tree_end); 0 of both: not expanded. */
	uint32_t *n_candidates, *n_ends;
	/* [capacity][k], each of the two falling q; ties by rising token */
	struct candidate *candidate;
	/* Of the builders, for who prices them: nodes that they looked at, one
	 * after the other. They add, the caller takes away. */
	uint64_t steps;
	/* tree_keep's own. */
	void *spare;
	uint32_t *number;
};

/*
 * Room for `capacity` >= 1 nodes of 1 <= k <= TREE_CANDIDATES candidates. It is
 * to be reset before use. -ENOMEM.
 */
int tree_open(struct tree **out, uint32_t capacity, uint32_t k, struct err *);
void tree_close(struct tree *);

/* Nothing but a root, which is not expanded. */
void tree_reset(struct tree *, int32_t root);

/*
 * A node more: candidate c of `parent`, 0 <= c.q <= 1. Returns it. There must
 * be room, and the parent must not have such a child yet.
 */
uint32_t tree_add(struct tree *, uint32_t parent, struct candidate c);

/*
 * Of the candidates of a node just expanded those are set apart that end the
 * text: what is behind them is never drawn, and whether they are themselves
 * does not hang on their being in the tree.
 */
void tree_end(struct tree *, uint32_t node,
	bool (*ends)(const void *arg, int32_t token), const void *arg);

/* All candidates of a node, those that end the text too. */
static inline uint32_t tree_expects(const struct tree *t, uint32_t node)
{
	return t->n_candidates[node] + t->n_ends[node];
}

/* The child of `node` that is `token`, or -1. */
int32_t tree_child(const struct tree *, uint32_t node, int32_t token);

/*
 * Nodes node[0] = 0, node[1] ... node[n - 1] stay, each named behind its
 * parent, and are numbered anew in that order; the others are forgotten.
 * Expansions and the drafter's rows go with their nodes.
 */
void tree_keep(struct tree *, const uint32_t *node, uint32_t n);

#endif
