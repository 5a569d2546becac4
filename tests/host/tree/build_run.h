/*
 * Runs a builder with one drafter to its end, without another request between
 * the steps.
 */
#ifndef TESTS_HOST_TREE_BUILD_RUN_H
#define TESTS_HOST_TREE_BUILD_RUN_H

#include "host/tree/build.h"
#include "host/tree/drafter.h"

/* Run a build that has begun to its end, then release it. */
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
