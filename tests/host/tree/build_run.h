/*
 * Runs a tree builder with one drafter until the tree is complete.
 */
#ifndef TESTS_HOST_TREE_BUILD_RUN_H
#define TESTS_HOST_TREE_BUILD_RUN_H

#include "host/tree/build.h"
#include "host/tree/drafter.h"

/* Run a build that has begun until the build ends, then release the build.
 * Returns 0, or the error of the drafter or of the builder. */
static inline int build_run(
	struct build *b, const struct drafter *d, struct err *e)
{
	const uint32_t *node;
	uint32_t n;
	int ret;

	while ((ret = build_next(b, &node, &n, e)) == BUILD_EXPAND) {
		ret = d->expand(d->arg, b->tree, node, n, e);
		if (ret)
			break;
	}
	build_release(b);
	return ret;
}

#endif
