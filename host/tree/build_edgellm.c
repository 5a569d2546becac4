#include "host/tree/build.h"
#include "host/tree/grow.h"

#include <math.h>

#define CHILDREN    2
#define ALPHA_FIRST 0.01
#define ALPHA_LEAST 1e-4
#define ALPHA_MOST  0.9

void edgellm_init(struct edgellm *p)
{
	p->alpha = ALPHA_FIRST;
}

static void add_children(struct tree *t, uint32_t node, uint32_t rows)
{
	while (t->n_children[node] < CHILDREN &&
		t->n_children[node] < t->n_candidates[node] && t->n < rows)
		grow_add(t, node);
}

/* The likeliest end of a branch that may grow; the root when there is none. */
static uint32_t likeliest_open(struct tree *t, uint32_t depth)
{
	uint32_t best = 0;

	t->steps += t->n;
	for (uint32_t u = 1; u < t->n; u++)
		if (!tree_expects(t, u) && t->depth[u] < depth &&
			(!best || t->path[u] > t->path[best]))
			best = u;
	return best;
}

int build_edgellm(struct tree *t, const struct drafter *d,
	const struct build_limits *limits, const struct edgellm *p,
	struct err *e)
{
	uint32_t node = 0;
	int ret = 0;

	if (!limits->depth)
		return 0;
	/* Nothing is expected behind an end: the draft has no room left. */
	while (!ret && tree_expects(t, node)) {
		add_children(t, node, limits->rows);
		node = likeliest_open(t, limits->depth);
		if (!node || t->path[node] < p->alpha || t->n == limits->rows)
			break;
		ret = grow_expand(t, d, node, node + 1, e);
	}
	return ret;
}

void edgellm_saw(struct edgellm *p, uint32_t drafted, uint32_t accepted)
{
	if (!drafted)
		return;
	if (accepted == drafted)
		p->alpha *= 0.5;
	else
		p->alpha /= pow(0.5, (double)(drafted - accepted) / drafted);
	p->alpha = fmin(fmax(p->alpha, ALPHA_LEAST), ALPHA_MOST);
}
