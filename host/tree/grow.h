/*
 * What the builders (build.h) share, and nobody else includes. In all of them a
 * node's children are its first candidates: candidate n_children[node] is the
 * next to join.
 */
#ifndef HOST_TREE_GROW_H
#define HOST_TREE_GROW_H

#include <stdint.h>

#include "host/tree/tree.h"

struct drafter;

/* Expand nodes first .. end - 1. */
int grow_expand(struct tree *, const struct drafter *, uint32_t first,
	uint32_t end, struct err *);

/*
 * Of nodes first .. end - 1 the one whose next candidate to join has the
 * largest path probability; -1 when none has a candidate left.
 */
int32_t grow_best(struct tree *, uint32_t first, uint32_t end);

/* Add the candidate n_children[node] of a node. */
uint32_t grow_add(struct tree *, uint32_t node);

/*
 * The tree becomes the root and the likeliest rows - 1 of all candidates by
 * path, which hang together, since no path is likelier than a part of it.
 * -ENOMEM.
 */
int grow_select(struct tree *, uint32_t rows, struct err *);

#endif
