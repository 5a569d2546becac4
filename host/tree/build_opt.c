#include "host/tree/build.h"
#include "host/tree/grow.h"

/* Tokens that verification accepts, by the draft's word. */
static double expected(const struct tree *t)
{
	double sum = 0;

	for (uint32_t u = 1; u < t->n; u++)
		sum += t->path[u];
	return sum;
}

/*
 * After each layer the tree is the best of all that is known. What it lacks
 * then never comes back, and what is new in it stands at its end, a layer of
 * `depth`.
 */
static int add_layer(struct build *b, struct err *e)
{
	const struct tree *t = b->tree;
	uint32_t depth = ++b->layers, first;
	double before = b->expected;
	int ret;

	if (!b->limits.depth)
		return BUILD_DONE;
	ret = grow_select(b, e);
	if (ret)
		return ret;
	b->expected = expected(t);
	if (depth == b->limits.depth || b->expected - before <= b->threshold)
		return BUILD_DONE;
	for (first = t->n; t->depth[first - 1] == depth;)
		first--;
	return grow_expand(b, first, t->n);
}

void build_opt_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, double threshold)
{
	grow_begin(b, t, limits, add_layer);
	b->threshold = threshold;
	b->expected = 0;
	b->layers = 0;
}
