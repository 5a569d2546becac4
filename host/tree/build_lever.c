/*
 * The candidates of all expanded nodes form a list by falling reach (the
 * best-prefix list). Any prefix of this list is a tree, as no candidate has a
 * larger reach than its parent. Two decisions remain: how many more nodes to
 * expand, and how long a prefix to take. Only an expansion cannot be undone.
 *
 * Taking the prefix of n entries gives G(n), the sum of their reach, in the
 * time L(d, C(n)) (pass_cost.h), where d is the drafting time spent on this
 * tree. best_of finds the n with the highest rate G / L. Expanding k nodes adds
 * D(k) to d. choose_number predicts the list after an expansion from average
 * candidate probabilities, and compares the rates.
 */
#include "host/tree/build.h"
#include "host/tree/grow.h"
#include "host/tree/pass_cost.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY 200  /* expansions that `expect` averages over */
#define SLACK  1e-9 /* least relative improvement of a rate */

/* ---- the list ------------------------------------------------------------ */

struct entry {
	double reach;  /* R of equation 3 */
	int32_t node;  /* node in struct tree; -1 if it is not added yet */
	int32_t above; /* the parent's node; -1 for the root */
	uint32_t depth;
	bool requested; /* expanded already, or requested */
};

struct growth {
	struct build *build;
	struct tree *tree;
	const struct build_limits *limits;
	const struct pass_cost *cost;
	struct gain_rule *rule;
	double rho;
	double *time;       /* [limits->rows + 1] C(n) by number of rows n */
	struct entry *list; /* [limits->rows + 1] by falling reach */
	/* [limits->rows] the reach of each entry of a predicted list */
	double *reach;
	uint32_t *keep; /* [limits->rows] nodes */
	uint32_t n;
	double drafting; /* drafting time spent on this tree, as predicted */
	/* number of expanded nodes that were not the first of their batch */
	uint32_t ahead;
	/* Nodes being expanded; their candidates are not in the list yet. */
	struct entry parent[BUILD_BATCH];
	uint32_t n_parents;
};

/* Insert after all entries with the same reach, so that a parent precedes its
 * children, and siblings stay in order. Entries beyond limits->rows are
 * dropped. */
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

/* Returns the prefix with the highest rate in a list of falling reaches, for a
 * given drafting time. Without best_prefix the paper's stop rule applies: the
 * last prefix before the rate first falls. */
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

/* Time to expand n nodes, no more than `most` together. */
static double expansion_time(const struct growth *g, uint32_t n, uint32_t most)
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

/* Predict the list after the expansion of n nodes of the list, list[at[]], if
 * each of them gets average candidates. Writes the list to g->reach and returns
 * its length. */
static uint32_t predict_list(
	struct growth *g, const uint32_t at[BUILD_BATCH], uint32_t n)
{
	double ahead[BUILD_BATCH * TREE_CANDIDATES];
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

/*
 * Returns how many of these nodes, in their order, are best expanded at once; 0
 * if none. Only numbers that raise the rate are considered. Of these, the one
 * with the largest rise per expansion time is chosen, where the rise is
 * computed as if the expansion took no time. So several nodes are expanded
 * together if this takes little more time than one. If the cost has steps (an
 * NPU's tiles), an expansion may pay only if more than `most` nodes fill a
 * step, so larger numbers are tried as well.
 */
static uint32_t choose_number(
	struct growth *g, const uint32_t at[BUILD_BATCH], uint32_t n)
{
	uint32_t rows = g->limits->rows, best = 0, some = 1;
	uint32_t spare = g->tree->capacity - rows - g->ahead;
	uint32_t most = g->limits->most;
	double now, rise = 0, taken = 0;

	/* The first node of a batch stays in the list, because no entry added
	 * later has a larger reach. The other nodes of the batch may be dropped
	 * from the list later; they then occupy unused nodes of struct tree,
	 * which must still have room for limits->rows nodes. */
	most = most < 1 + spare ? most : 1 + spare;
	most = most < n ? most : n;
	/* Without known costs, expand until the list is full and the candidates
	 * of the next node could not enter it. */
	if (!pass_cost_is_known(g->cost)) {
		if (g->n == rows &&
			g->list[at[0]].reach * g->rho <=
				g->list[rows - 1].reach)
			return 0;
		some = g->limits->batch > 1 ? g->limits->batch : 1;
		return some < most ? some : most;
	}
	now = best_now(g).rate * (1 + SLACK);
	for (; some <= n && (some <= most || !best); some *= 2) {
		uint32_t longer = predict_list(g, at, some);
		double time = expansion_time(g, some, most), free;

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

/* ---- expanding nodes ----------------------------------------------------- */

/* Update the average probabilities of a node's candidates. */
static void update_average(
	struct gain_rule *p, const struct tree *t, uint32_t node)
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

/* ---- the tree ------------------------------------------------------------ */

static int grow(struct build *b, struct err *e)
{
	struct growth *g = b->memory;
	uint32_t at[BUILD_BATCH], n = 0, some, first = g->tree->n;
	struct best best;

	for (uint32_t i = 0; i < g->n_parents; i++) {
		update_average(g->rule, g->tree, (uint32_t)g->parent[i].node);
		enter_candidates(g, g->parent[i]);
	}
	/* Collect the likeliest nodes in the list that may be expanded. */
	for (uint32_t i = 0; i < g->n && n < BUILD_BATCH; i++)
		if (!g->list[i].requested &&
			g->list[i].depth < g->limits->depth)
			at[n++] = i;
	some = n ? choose_number(g, at, n) : 0;
	if (some) {
		for (uint32_t i = 0; i < some; i++) {
			struct entry *x = &g->list[at[i]];

			x->requested = true;
			x->node =
				(int32_t)grow_add(g->tree, (uint32_t)x->above);
			g->parent[i] = *x;
		}
		g->n_parents = some;
		g->drafting += expansion_time(g, some, some);
		g->ahead += some - 1;
		return grow_expand(b, first, first + some);
	}
	/* The best prefix becomes the tree, the likeliest nodes first. */
	best = best_now(g);
	for (uint32_t i = 0; i < best.n; i++) {
		struct entry *x = &g->list[i];

		if (x->node < 0)
			x->node =
				(int32_t)grow_add(g->tree, (uint32_t)x->above);
		g->keep[i] = (uint32_t)x->node;
	}
	grow_settle(g->tree, g->keep, best.n, g->rule, best.gain, best.latency);
	return BUILD_DONE;
}

static int start(struct build *b, struct err *e)
{
	const struct entry root = {
		.reach = 1, .above = -1, .requested = true
	};
	const uint32_t rows = b->limits.rows;
	struct growth *g;
	int ret = grow_reserve(b,
		sizeof(*g) +
			(rows + 1) *
				(sizeof(*g->list) + sizeof(*g->time) +
					sizeof(*g->reach) + sizeof(*g->keep)),
		e);

	if (ret)
		return ret;
	assert(b->tree->n == 1 && rows >= 1);
	g = b->memory;
	*g = (struct growth){ .build = b,
		.tree = b->tree,
		.limits = &b->limits,
		.cost = b->pass_cost,
		.rule = b->rule,
		.rho = gain_rule_reliability(b->rule),
		.parent = { root },
		.n_parents = b->limits.depth > 0 };
	g->list = (struct entry *)(g + 1);
	g->time = (double *)(g->list + rows + 1);
	g->reach = g->time + rows + 1;
	g->keep = (uint32_t *)(g->reach + rows);
	for (uint32_t i = 1; i <= rows; i++)
		g->time[i] = pass_cost_rows(g->cost, i);
	enter(g, root);
	b->step = grow;
	return grow(b, e);
}

void build_lever_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, const struct pass_cost *cost,
	struct gain_rule *p)
{
	grow_begin(b, t, limits, start);
	b->pass_cost = cost;
	b->rule = p;
}
