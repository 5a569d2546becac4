/*
 * Functions shared by the builders (build.h). In all of them a node's children
 * are its first candidates: candidate n_children[node] is the next to join.
 *
 * A builder is a step function, called when the nodes that it requested last
 * are expanded, at first the root. It adds nodes to the tree, and sets the
 * nodes to be expanded next: a range by grow_expand, or others directly in
 * node[n], n <= BUILD_BATCH.
 */
#ifndef HOST_TREE_GROW_H
#define HOST_TREE_GROW_H

#include "host/tree/build.h"
#include "host/tree/tree.h"

#include <stddef.h>
#include <stdint.h>

void grow_begin(struct build *, struct tree *, const struct build_limits *,
	int (*step)(struct build *, struct err *));

/* Request the expansion of nodes first .. end - 1, possibly none: returns
 * BUILD_EXPAND. */
int grow_expand(struct build *, uint32_t first, uint32_t end);

/* Make room for `bytes` bytes in b->memory; its contents may be lost.
 * -ENOMEM. */
int grow_reserve(struct build *b, size_t bytes, struct err *);

/*
 * The node of first .. end - 1 whose next candidate has the largest path
 * probability; -1 when none has a candidate left.
 */
int32_t grow_best(struct tree *, uint32_t first, uint32_t end);

/* Add candidate n_children[node] of a node. */
uint32_t grow_add(struct tree *, uint32_t node);

/*
 * Reduce the tree to the root and the limits.rows - 1 likeliest of all
 * candidates by path probability, which are connected, as no path is likelier
 * than its prefixes. Uses the memory. -ENOMEM.
 */
int grow_select(struct build *, struct err *);

/* Reduce the tree to nodes node[n] (tree_keep), and record its gain and
 * latency, and how many of the expanded nodes it uses, in *rule. */
void grow_settle(struct tree *, const uint32_t *node, uint32_t n,
	struct gain_rule *rule, double gain, double latency);

#endif
