#include "host/tree/build.h"
#include "host/tree/grow.h"

/* The `beam` best children of the layer that was expanded; the deepest layer is
 * made of candidates alone. */
static int add_layer(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	uint32_t end = b->end;
	int32_t best;

	if (!b->limits.depth || b->limits.rows == 1)
		return BUILD_DONE;
	if (b->first == end || t->depth[b->first] + 1 == b->limits.depth)
		return grow_select(b, e);
	while (t->n - end < b->beam && t->n < t->capacity) {
		best = grow_best(t, b->first, end);
		if (best < 0)
			break;
		grow_add(t, (uint32_t)best);
	}
	return grow_expand(b, end, t->n);
}

void build_eagle2_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, uint32_t beam)
{
	grow_begin(b, t, limits, add_layer);
	b->beam = beam;
}
