#include "host/tree/build.h"
#include "host/tree/grow.h"

static bool may_grow(const struct build *b)
{
	const struct tree *t = b->tree;

	return t->n < b->limits.rows && t->depth[t->n - 1] < b->limits.depth;
}

static int add_token(struct build *b, struct err *e)
{
	uint32_t node = b->tree->n - 1;

	if (!may_grow(b) || !b->tree->n_candidates[node])
		return BUILD_DONE;
	node = grow_add(b->tree, node);
	return may_grow(b) ? grow_expand(b, node, node + 1) : BUILD_DONE;
}

void build_chain_begin(
	struct build *b, struct tree *t, const struct build_limits *limits)
{
	grow_begin(b, t, limits, add_token);
}
