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

static int grow_branch(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	uint32_t node = b->first;

	/* Nothing is expected behind an end: the draft has no room left. */
	if (!b->limits.depth || !tree_expects(t, node))
		return BUILD_DONE;
	add_children(t, node, b->limits.rows);
	node = likeliest_open(t, b->limits.depth);
	if (!node || t->path[node] < b->edgellm->alpha ||
		t->n == b->limits.rows)
		return BUILD_DONE;
	return grow_expand(b, node, node + 1);
}

void build_edgellm_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, const struct edgellm *p)
{
	grow_begin(b, t, limits, grow_branch);
	b->edgellm = p;
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
