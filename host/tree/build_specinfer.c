#include "host/tree/build.h"
#include "host/tree/grow.h"

/* Whether the nodes first .. end - 1, a layer, may have children. */
static bool may_grow(const struct build *b, uint32_t first, uint32_t end)
{
	const struct tree *t = b->tree;

	return first < end && t->n < b->limits.rows &&
		t->depth[first] < b->limits.depth &&
		t->depth[first] < b->n_widths;
}

static int add_layer(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	uint32_t width, end = b->end;

	if (!may_grow(b, b->first, end))
		return BUILD_DONE;
	width = b->width[t->depth[b->first]];
	for (uint32_t u = b->first; u < end; u++)
		while (t->n_children[u] < width &&
			t->n_children[u] < t->n_candidates[u] &&
			t->n < b->limits.rows)
			grow_add(t, u);
	return may_grow(b, end, t->n) ? grow_expand(b, end, t->n) : BUILD_DONE;
}

void build_specinfer_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, const uint32_t *width,
	uint32_t n_widths)
{
	grow_begin(b, t, limits, add_layer);
	b->width = width;
	b->n_widths = n_widths;
}
