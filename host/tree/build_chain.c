#include "host/tree/build.h"
#include "host/tree/grow.h"

int build_chain(struct tree *t, const struct drafter *d,
	const struct build_limits *limits, struct err *e)
{
	uint32_t node = 0;
	int ret = 0;

	while (!ret && t->n < limits->rows && t->depth[node] < limits->depth) {
		if (node)
			ret = grow_expand(t, d, node, node + 1, e);
		if (ret || !t->n_candidates[node])
			break;
		node = grow_add(t, node);
	}
	return ret;
}
