#include "host/tree/build.h"
#include "host/tree/grow.h"

/* The `beam` best children of the nodes first .. end - 1. */
static void add_layer(
	struct tree *t, uint32_t first, uint32_t end, uint32_t beam)
{
	int32_t best;

	while (t->n - end < beam && t->n < t->capacity) {
		best = grow_best(t, first, end);
		if (best < 0)
			break;
		grow_add(t, (uint32_t)best);
	}
}

int build_eagle2(struct tree *t, const struct drafter *d,
	const struct build_limits *limits, uint32_t beam, struct err *e)
{
	uint32_t first = 0, end = 1;
	int ret;

	if (!limits->depth || limits->rows == 1)
		return 0;
	/* The deepest layer is made of candidates alone. */
	for (uint32_t depth = 1; depth < limits->depth; depth++) {
		add_layer(t, first, end, beam);
		ret = grow_expand(t, d, end, t->n, e);
		if (ret)
			return ret;
		first = end;
		end = t->n;
	}
	return grow_select(t, limits->rows, e);
}
