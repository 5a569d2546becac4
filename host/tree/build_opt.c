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
int build_opt(struct tree *t, const struct drafter *d,
	const struct build_limits *limits, double threshold, struct err *e)
{
	double before = 0, now;
	uint32_t first;
	int ret = 0;

	for (uint32_t depth = 1; !ret && depth <= limits->depth; depth++) {
		ret = grow_select(t, limits->rows, e);
		now = expected(t);
		if (ret || depth == limits->depth || now - before <= threshold)
			break;
		before = now;
		for (first = t->n; t->depth[first - 1] == depth;)
			first--;
		ret = grow_expand(t, d, first, t->n, e);
	}
	return ret;
}
