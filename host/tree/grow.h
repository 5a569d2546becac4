/*
 * What the builders (build.h) share. In all of them a node's children are its
 * first candidates: candidate n_children[node] is the next to join.
 *
 * A builder is a step, called when the nodes that the last one asked for are
 * expanded, at first the root. It adds nodes to the tree, and names those to be
 * expanded next: a range by grow_expand, or others in node[n], n <=
 * BUILD_BATCH, itself.
 */
#ifndef HOST_TREE_GROW_H
#define HOST_TREE_GROW_H

#include "host/tree/build.h"
#include "host/tree/tree.h"

#include <stddef.h>
#include <stdint.h>

void grow_begin(struct build *, struct tree *, const struct build_limits *,
	int (*step)(struct build *, struct err *));

/* Nodes first .. end - 1, which may be none, are to be expanded: BUILD_EXPAND.
 */
int grow_expand(struct build *, uint32_t first, uint32_t end);

/* b->memory has room for so many bytes; what was in it may be gone. -ENOMEM. */
int grow_reserve(struct build *b, size_t bytes, struct err *);

/*
 * Of nodes first .. end - 1 the one whose next candidate to join has the
 * largest path probability; -1 when none has a candidate left.
 */
int32_t grow_best(struct tree *, uint32_t first, uint32_t end);

/* Add the candidate n_children[node] of a node. */
uint32_t grow_add(struct tree *, uint32_t node);

/*
 * The tree becomes the root and the likeliest limits.rows - 1 of all candidates
 * by path, which hang together, since no path is likelier than a part of it.
 * Uses the memory. -ENOMEM.
 */
int grow_select(struct build *, struct err *);

/* Nodes node[n] (tree_keep) become the tree, and *rule notes what that is worth
 * and how many of the nodes that were expanded it needs. */
void grow_settle(struct tree *, const uint32_t *node, uint32_t n,
	struct gain_rule *rule, double gain, double latency);

#endif
