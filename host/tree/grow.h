/*
 * Functions shared by the builders (build.h). In every builder a node's
 * children are its first candidates, so candidate n_children[node] is added
 * next.
 *
 * A builder is a step function. The function is called for the first time when
 * the root has been expanded, and then whenever the nodes that it requested
 * have been expanded. Each step adds nodes to the tree and requests the nodes
 * to be expanded next: a range of nodes with grow_expand, or other nodes by
 * writing them to node[n], n <= BUILD_BATCH.
 */
#ifndef HOST_TREE_GROW_H
#define HOST_TREE_GROW_H

#include "host/tree/build.h"
#include "host/tree/tree.h"

#include <stddef.h>
#include <stdint.h>

void grow_begin(struct build *, struct tree *, const struct build_limits *,
	int (*step)(struct build *, struct err *));

/* Request the expansion of nodes first .. end - 1, which may be none. Returns
 * BUILD_EXPAND. */
int grow_expand(struct build *, uint32_t first, uint32_t end);

/* Make room for `bytes` bytes in b->memory; the old contents may be lost.
 * Returns 0 or -ENOMEM. */
int grow_reserve(struct build *b, size_t bytes, struct err *);

/*
 * Of the nodes first .. end - 1, returns the one whose next candidate has the
 * largest path probability, or -1 if no node has a candidate left.
 */
int32_t grow_best(struct tree *, uint32_t first, uint32_t end);

/* Add candidate n_children[node] of `node` to the tree, and return the new
 * node. */
uint32_t grow_add(struct tree *, uint32_t node);

/*
 * Reduce the tree to the root and the limits.rows - 1 best of all its
 * candidates, by path probability. The kept nodes form a tree, because no path
 * is likelier than its prefixes. Uses b->memory. Returns BUILD_DONE or -ENOMEM.
 */
int grow_select(struct build *, struct err *);

/* Reduce the tree to node[n] (tree_keep). Record the reduced tree's gain and
 * latency in *rule, and how many expanded nodes of the tree have no children in
 * the reduced tree. */
void grow_settle(struct tree *, const uint32_t *node, uint32_t n,
	struct gain_rule *rule, double gain, double latency);

#endif
