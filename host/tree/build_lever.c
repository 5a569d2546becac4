/*
 * Known are the candidates behind all nodes that were expanded, in a list by
 * falling reach; the tree is a beginning of it, since no candidate reaches
 * further than its parent. Two things are to be decided, how many more nodes
 * are expanded and how long the beginning is, and only the first commits.
 */
#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/grow.h"
#include "host/tree/pass_cost.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MOST 64
#define MEMORY     200  /* expansions that `expect` remembers */
#define SLACK      1e-9 /* by which a rate must be better to be so */

/* ---- the list ------------------------------------------------------------ */

struct entry {
	double reach;  /* R of equation 3 */
	int32_t node;  /* in struct tree; -1: it is none yet */
	int32_t above; /* node of its parent; -1 of the root */
	uint32_t depth;
	bool asked; /* was to be expanded */
};

struct growth {
	struct tree *tree;
	const struct drafter *drafter;
	const struct build_limits *limits;
	const struct pass_cost *cost;
	struct gain_rule *rule;
	double rho;
	double *time;       /* [limits->rows + 1] C of so many rows */
	struct entry *list; /* [limits->rows + 1] by falling reach */
	double *reach;      /* [limits->rows] of a list as it may become */
	uint32_t n;
	double drafting; /* what looking behind nodes took, as it is known */
	uint32_t looked; /* nodes that were expanded, the root too */
	uint32_t ahead;  /* of these were not the first of their batch */
};

/* A place behind all that reach as far, so a parent comes before its child and
 * a sibling before the next. What is no longer among `rows` falls off. */
static void enter(struct growth *g, struct entry x)
{
	uint32_t most = g->limits->rows, at = g->n;

	while (at && g->list[at - 1].reach < x.reach)
		at--;
	g->tree->steps += g->n - at + 1;
	if (at == most)
		return;
	memmove(g->list + at + 1, g->list + at, (g->n - at) * sizeof(*g->list));
	g->list[at] = x;
	g->n += g->n < most;
}

static void enter_candidates(struct growth *g, struct entry parent)
{
	const struct tree *t = g->tree;
	const struct candidate *c = t->candidate + (size_t)parent.node * t->k;

	for (uint32_t i = 0; i < t->n_candidates[parent.node]; i++) {
		struct entry x = { .reach = parent.reach * g->rho *
				(double)c[i].q,
			.node = -1,
			.above = parent.node,
			.depth = parent.depth + 1 };

		if (x.reach > 0)
			enter(g, x);
	}
}

/* ---- what a tree is worth ------------------------------------------------ */

struct best {
	uint32_t n;
	double gain, latency, rate;
};

/* Of the beginnings of a list of falling reaches the best, where drafting took
 * so long; where the stop rule says, as the paper has it. */
static struct best best_of(const struct growth *g, const double *reach,
	uint32_t n, double drafting)
{
	struct best best = { 0 };
	double gain = 0;

	g->tree->steps += n;
	for (uint32_t i = 0; i < n; i++) {
		double latency =
			pass_cost_cycle(g->cost, drafting, g->time[i + 1]);

		gain += reach[i];
		if (!best.n || gain > best.rate * latency * (1 + SLACK))
			best = (struct best){ i + 1, gain, latency,
				gain / latency };
		else if (!g->rule->best_prefix)
			break;
	}
	return best;
}

static struct best best_now(struct growth *g)
{
	struct best all = { .n = g->n };

	for (uint32_t i = 0; i < g->n; i++) {
		g->reach[i] = g->list[i].reach;
		all.gain += g->list[i].reach;
	}
	if (!pass_cost_is_known(g->cost))
		return all;
	return best_of(g, g->reach, g->n, g->drafting);
}

/* ---- which nodes are next ------------------------------------------------ */

static bool grows(const struct growth *g, const struct entry *x)
{
	return !x->asked && x->depth < g->limits->depth;
}

/* Where in the list the likeliest nodes are that may be expanded. */
static uint32_t find_open(const struct growth *g, uint32_t at[BATCH_MOST])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n && n < BATCH_MOST; i++)
		if (grows(g, &g->list[i]))
			at[n++] = i;
	return n;
}

/*
 * How many may be expanded together. Of a batch the first stays in the list,
 * since nothing reaches further than what was known then; all others can fall
 * off, then or later, and stay in struct tree in vain, where beside them there
 * has to be room for `rows`.
 */
static uint32_t together(const struct growth *g, uint32_t n)
{
	uint32_t spare = g->tree->capacity - g->limits->rows - g->ahead;
	uint32_t most = drafter_most(g->drafter);

	most = most < 1 + spare ? most : 1 + spare;
	return most < n ? most : n;
}

/* What it takes to look behind n nodes, at most so many together. */
static double looks(const struct growth *g, uint32_t n, uint32_t most)
{
	double sum = 0, time;

	for (uint32_t some; n; n -= some) {
		some = pass_cost_look(g->cost, n < most ? n : most, &time);
		sum += time;
	}
	return sum;
}

static int falling(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The list as it will be if behind these nodes there is what there mostly was
 * behind nodes; returns how long. */
static uint32_t foresee(
	struct growth *g, const uint32_t at[BATCH_MOST], uint32_t n)
{
	double ahead[BATCH_MOST * TREE_CANDIDATES];
	uint32_t m = 0, i = 0, j = 0, k = 0;

	for (uint32_t b = 0; b < n; b++)
		for (uint32_t c = 0; c < g->tree->k; c++) {
			double x = g->list[at[b]].reach * g->rho *
				g->rule->expect[c];

			if (x > 0)
				ahead[m++] = x;
		}
	g->tree->steps += m;
	qsort(ahead, m, sizeof(*ahead), falling);
	while (k < g->limits->rows && (i < g->n || j < m))
		if (j == m || (i < g->n && g->list[i].reach >= ahead[j]))
			g->reach[k++] = g->list[i++].reach;
		else
			g->reach[k++] = ahead[j++];
	return k;
}

/* Nothing is known of costs: until the list is full of what reaches further. */
static uint32_t until_full(const struct growth *g, uint32_t first)
{
	uint32_t rows = g->limits->rows;
	bool more = g->n < rows ||
		g->list[first].reach * g->rho > g->list[rows - 1].reach;

	return !more ? 0 : g->drafter->batch > 1 ? g->drafter->batch : 1;
}

/*
 * Behind how many of these nodes, at most `most` together, it is best to look
 * now; 0: behind none. Of the numbers that are worth their time it is the one
 * that raises the rate most for it, as if time itself were free: several at
 * once are worth it where they take little more than one. Where cost has steps,
 * only more than can be asked of at once may fill one.
 */
static uint32_t how_many(struct growth *g, const uint32_t at[BATCH_MOST],
	uint32_t n, uint32_t most)
{
	double now, rise = 0, taken = 0;
	uint32_t best = 0;

	if (!pass_cost_is_known(g->cost)) {
		uint32_t some = until_full(g, at[0]);

		return some < most ? some : most;
	}
	now = best_now(g).rate * (1 + SLACK);
	for (uint32_t some = 1; some <= n && (some <= most || !best);
		some *= 2) {
		uint32_t longer = foresee(g, at, some);
		double time = looks(g, some, most), free;

		if (best_of(g, g->reach, longer, g->drafting + time).rate <=
			now)
			continue;
		if (most == 1)
			return 1;
		free = best_of(g, g->reach, longer, g->drafting).rate - now;
		if (!best || free * taken > rise * time) {
			best = some < most ? some : most;
			rise = free;
			taken = time;
		}
	}
	return best;
}

/* ---- looking behind them ------------------------------------------------- */

/* What is mostly found behind a node. */
static void learn(struct gain_rule *p, const struct tree *t, uint32_t node)
{
	const struct candidate *c = t->candidate + (size_t)node * t->k;

	if (!t->n_candidates[node])
		return;
	p->n_expect += p->n_expect < MEMORY;
	for (uint32_t i = 0; i < t->k; i++) {
		double q = i < t->n_candidates[node] ? (double)c[i].q : 0;

		p->expect[i] += (q - p->expect[i]) / p->n_expect;
	}
}

static int look_behind(struct growth *g, const uint32_t at[BATCH_MOST],
	uint32_t n, struct err *e)
{
	uint32_t node[BATCH_MOST];
	struct entry parent[BATCH_MOST];
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		struct entry *x = &g->list[at[i]];

		x->asked = true;
		x->node = (int32_t)grow_add(g->tree, (uint32_t)x->above);
		node[i] = (uint32_t)x->node;
		parent[i] = *x;
	}
	g->drafting += looks(g, n, n);
	g->ahead += n - 1;
	ret = g->drafter->expand(g->drafter->arg, g->tree, node, n, e);
	for (uint32_t i = 0; i < n; i++) {
		g->looked += g->tree->n_candidates[node[i]] > 0;
		learn(g->rule, g->tree, node[i]);
		enter_candidates(g, parent[i]);
	}
	return ret;
}

static int grow(struct growth *g, struct err *e)
{
	uint32_t at[BATCH_MOST], n;
	int ret = 0;

	while (!ret && (n = find_open(g, at))) {
		uint32_t some = how_many(g, at, n, together(g, n));

		if (!some)
			break;
		ret = look_behind(g, at, some, e);
	}
	return ret;
}

/* ---- the tree ------------------------------------------------------------ */

/* What is best of what is known becomes the tree, the likeliest first. */
static void settle(struct growth *g, uint32_t *keep)
{
	struct tree *t = g->tree;
	struct best best = best_now(g);
	uint32_t used = 0;

	for (uint32_t i = 0; i < best.n; i++) {
		struct entry *x = &g->list[i];

		if (x->node < 0)
			x->node = (int32_t)grow_add(t, (uint32_t)x->above);
		keep[i] = (uint32_t)x->node;
	}
	tree_keep(t, keep, best.n);
	for (uint32_t u = 0; u < t->n; u++)
		used += t->n_children[u] > 0;
	g->rule->gain = best.gain;
	g->rule->latency = best.latency;
	g->rule->expanded += g->looked;
	g->rule->wasted += g->looked - used;
}

static void begin(struct growth *g)
{
	const struct entry root = { .reach = 1, .above = -1, .asked = true };

	for (uint32_t i = 1; i <= g->limits->rows; i++)
		g->time[i] = pass_cost_rows(g->cost, i);
	g->looked = g->tree->n_candidates[0] > 0;
	enter(g, root);
	if (g->limits->depth) {
		learn(g->rule, g->tree, 0);
		enter_candidates(g, root);
	}
}

int build_lever(struct tree *t, const struct drafter *d,
	const struct build_limits *limits, const struct pass_cost *cost,
	struct gain_rule *p, struct err *e)
{
	const uint32_t rows = limits->rows;
	struct growth g = { .tree = t,
		.drafter = d,
		.limits = limits,
		.cost = cost,
		.rule = p,
		.rho = gain_rule_reliability(p) };
	uint32_t *keep = malloc(rows * sizeof(*keep));
	int ret;

	assert(t->n == 1 && rows >= 1 && rows <= t->capacity);
	g.time = malloc((rows + 1) * sizeof(*g.time));
	g.list = malloc((rows + 1) * sizeof(*g.list));
	g.reach = malloc(rows * sizeof(*g.reach));
	if (!keep || !g.time || !g.list || !g.reach) {
		ret = err_set(
			e, ENOMEM, "no memory for a tree of %u nodes", rows);
		goto out;
	}
	begin(&g);
	ret = grow(&g, e);
	settle(&g, keep);
out:
	free(keep);
	free(g.time);
	free(g.list);
	free(g.reach);
	return ret;
}
