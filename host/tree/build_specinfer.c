#include "host/tree/build.h"
#include "host/tree/grow.h"

/* `width` children for each of the nodes first .. end - 1. */
static void add_layer(struct tree *t, uint32_t first, uint32_t end,
	uint32_t width, uint32_t rows)
{
	for (uint32_t u = first; u < end; u++)
		while (t->n_children[u] < width &&
			t->n_children[u] < t->n_candidates[u] && t->n < rows)
			grow_add(t, u);
}

int build_specinfer(struct tree *t, const struct drafter *d,
	const struct build_limits *limits, const uint32_t *width,
	uint32_t n_widths, struct err *e)
{
	uint32_t first = 0, end = 1;
	int ret = 0;

	for (uint32_t depth = 0; depth < n_widths && depth < limits->depth &&
		first < end && t->n < limits->rows;
		depth++) {
		if (depth)
			ret = grow_expand(t, d, first, end, e);
		if (ret)
			break;
		add_layer(t, first, end, width[depth], limits->rows);
		first = end;
		end = t->n;
	}
	return ret;
}
