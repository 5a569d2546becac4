#include "host/tree/build.h"

#include "host/tree/grow.h"

#include <math.h>
#include <stdlib.h>

/* If a step function requests the expansion of no node, it is called again at
 * once. A step function can also request more nodes than one call of build_next
 * returns; the next calls return the other nodes. */
int build_next(
	struct build *b, const uint32_t **node, uint32_t *n, struct err *e)
{
	for (b->n = 0; !b->n;) {
		int ret = b->at < b->end ? BUILD_EXPAND : b->step(b, e);

		if (ret != BUILD_EXPAND)
			return ret;
		while (b->at < b->end && b->n < BUILD_BATCH)
			b->node[b->n++] = b->at++;
	}
	*node = b->node;
	*n = b->n;
	return BUILD_EXPAND;
}

void build_release(struct build *b)
{
	free(b->memory);
	*b = (struct build){ 0 };
}

/* ---- chain --------------------------------------------------------------- */

static bool chain_may_grow(const struct build *b)
{
	const struct tree *t = b->tree;

	return t->n < b->limits.rows && t->depth[t->n - 1] < b->limits.depth;
}

static int chain_step(struct build *b, struct err *e)
{
	uint32_t node = b->tree->n - 1;

	if (!chain_may_grow(b) || !b->tree->n_candidates[node])
		return BUILD_DONE;
	node = grow_add(b->tree, node);
	return chain_may_grow(b) ? grow_expand(b, node, node + 1) : BUILD_DONE;
}

void build_chain_begin(
	struct build *b, struct tree *t, const struct build_limits *limits)
{
	grow_begin(b, t, limits, chain_step);
}

/* ---- SpecInfer ----------------------------------------------------------- */

/* Whether any of the nodes first .. end - 1 (one layer of the tree) may have
 * children. */
static bool layer_may_grow(const struct build *b, uint32_t first, uint32_t end)
{
	const struct tree *t = b->tree;

	return first < end && t->n < b->limits.rows &&
		t->depth[first] < b->limits.depth &&
		t->depth[first] < b->n_widths;
}

static int specinfer_step(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	uint32_t width, end = b->end;

	if (!layer_may_grow(b, b->first, end))
		return BUILD_DONE;
	width = b->width[t->depth[b->first]];
	for (uint32_t u = b->first; u < end; u++)
		while (t->n_children[u] < width &&
			t->n_children[u] < t->n_candidates[u] &&
			t->n < b->limits.rows)
			grow_add(t, u);
	return layer_may_grow(b, end, t->n) ? grow_expand(b, end, t->n)
					    : BUILD_DONE;
}

void build_specinfer_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, const uint32_t *width,
	uint32_t n_widths)
{
	grow_begin(b, t, limits, specinfer_step);
	b->width = width;
	b->n_widths = n_widths;
}

/* ---- EAGLE-2 ------------------------------------------------------------- */

/* Add the `beam` best children of the layer that was expanded last. At the
 * depth limit, end with grow_select instead, which keeps the best candidates of
 * all layers, also candidates that are not nodes yet. */
static int eagle2_step(struct build *b, struct err *e)
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
	grow_begin(b, t, limits, eagle2_step);
	b->beam = beam;
}

/* ---- OPT-Tree ------------------------------------------------------------ */

/*
 * After each layer, reduce the tree to the limits.rows - 1 best of all known
 * candidates. A candidate that has been dropped cannot become one of these best
 * again. The new nodes, of depth `depth`, are the last nodes of the tree.
 */
static int opt_step(struct build *b, struct err *e)
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
	/* Expected number of accepted tokens, according to the draft's
	 * probabilities. */
	b->expected = 0;
	for (uint32_t u = 1; u < t->n; u++)
		b->expected += t->path[u];
	if (depth == b->limits.depth || b->expected - before <= b->threshold)
		return BUILD_DONE;
	for (first = t->n; t->depth[first - 1] == depth;)
		first--;
	return grow_expand(b, first, t->n);
}

void build_opt_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, double threshold)
{
	grow_begin(b, t, limits, opt_step);
	b->threshold = threshold;
	b->expected = 0;
	b->layers = 0;
}

/* ---- EdgeLLM ------------------------------------------------------------- */

#define CHILDREN    2
#define ALPHA_FIRST 0.01
#define ALPHA_LEAST 1e-4
#define ALPHA_MOST  0.9

void edgellm_init(struct edgellm *p)
{
	p->alpha = ALPHA_FIRST;
}

static int edgellm_step(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	uint32_t node = b->first, best = 0;

	/* The node that was expanded last has no candidates only if the draft
	 * model's context is full. */
	if (!b->limits.depth || !tree_expects(t, node))
		return BUILD_DONE;
	while (t->n_children[node] < CHILDREN &&
		t->n_children[node] < t->n_candidates[node] &&
		t->n < b->limits.rows)
		grow_add(t, node);
	/* Find the likeliest leaf that may be expanded. If no leaf may be
	 * expanded, best stays 0 (the root). */
	t->steps += t->n;
	for (uint32_t u = 1; u < t->n; u++)
		if (!tree_expects(t, u) && t->depth[u] < b->limits.depth &&
			(!best || t->path[u] > t->path[best]))
			best = u;
	if (!best || t->path[best] < b->edgellm->alpha ||
		t->n == b->limits.rows)
		return BUILD_DONE;
	return grow_expand(b, best, best + 1);
}

void build_edgellm_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, const struct edgellm *p)
{
	grow_begin(b, t, limits, edgellm_step);
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
