/*
 * Lever's tree builder (build_lever_begin). The reach of a candidate is the
 * probability that verification reaches it. The candidates of all expanded
 * nodes form a list sorted by descending reach. Any prefix of this list is a
 * tree, because no candidate has a larger reach than its parent. Two decisions
 * remain: how many more nodes to expand, and how long a prefix to take. An
 * expansion cannot be undone.
 *
 * The first n entries yield the gain G(n), the sum of their reach, in the time
 * L(G, d, C(n)) (pass_cost.h). d is the drafting time spent on this tree, and
 * C(n) the time to verify n rows. best_of finds the n with the highest rate G /
 * L. Expanding k nodes together takes the time D(k), which is added to d.
 *
 * To predict the list after further expansions, each node to be expanded is
 * assumed to get candidates with average probabilities. A prediction of one
 * expansion is not always enough: where C has a step, one more row may cost
 * more than it gains, although ten more rows together pay. So up to FURTHER
 * expansions in a row are predicted, until the predicted rate is higher than
 * the current rate.
 */
#include "host/tree/build.h"
#include "host/tree/grow.h"
#include "host/tree/pass_cost.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* number of expansions over which the candidates' probabilities are averaged
 * (gain_rule.expect) */
#define MEMORY 200
#define SLACK  1e-9 /* smallest relative improvement of a rate that counts */
/* maximum number of expansions that are predicted in a row */
#define FURTHER 12

/* ---- the list ------------------------------------------------------------ */

struct entry {
	/* probability of being reached: R of equation 3 of the Lever paper */
	double reach;
	/* index of the entry's node in struct tree; -1 if the entry has no node
	 * yet */
	int32_t node;
	int32_t above; /* index of the parent's node; -1 for the root */
	uint32_t depth;
	/* whether the node is expanded, or its expansion was requested */
	bool requested;
};

struct growth {
	struct build *build;
	struct tree *tree;
	const struct build_limits *limits;
	const struct pass_cost *cost;
	struct gain_rule *rule;
	/* [limits->rows + 1] C(n), the time to verify n rows */
	double *time;
	struct entry *list; /* [limits->rows] entries by descending reach */
	uint32_t n;
	/* [limits->rows] the list as predicted after further expansions */
	struct entry *next;
	uint32_t n_next;
	uint32_t *keep; /* [limits->rows] nodes of the finished tree */
	/* predicted duration of the expansions made for this tree */
	double drafting;
	/* number of expanded nodes, not counting the first node of each batch
	 * (nodes that are expanded together) */
	uint32_t ahead;
	/* The nodes that are being expanded, whose candidates are not in the
	 * list yet. */
	struct entry parent[BUILD_BATCH];
	uint32_t n_parents;
};

/* Insert x into the list after all entries with the same reach, so that parents
 * precede their children, and siblings stay in order. Entries beyond
 * limits->rows are dropped. */
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
	struct gain_rule *rule = g->rule;
	uint32_t node = (uint32_t)parent.node, n = g->tree->n_candidates[node];
	double p[TREE_CANDIDATES];

	/* without candidates the node was not expanded, because the draft's
	 * context is full */
	if (!tree_expects(g->tree, node))
		return;
	gain_rule_estimate(rule, &rule->draft, g->tree, node, NULL,
		tree_expects(g->tree, node), p);
	for (uint32_t i = 0; i < n && p[i] > 0; i++)
		enter(g,
			(struct entry){ .reach = parent.reach * p[i],
				.node = -1,
				.above = parent.node,
				.depth = parent.depth + 1 });
	rule->n_expect += rule->n_expect < MEMORY;
	for (uint32_t i = 0; i < g->tree->k; i++)
		rule->expect[i] +=
			((i < n ? p[i] : 0) - rule->expect[i]) / rule->n_expect;
}

/* ---- the rate of a tree -------------------------------------------------- */

struct best {
	uint32_t n;
	double gain, latency, rate;
};

/* Returns the prefix of a list with the highest rate (expected tokens per
 * time), for a given drafting time. Without best_prefix, applies the paper's
 * rule instead: the last prefix before the rate first falls. */
static struct best best_of(const struct growth *g, const struct entry *list,
	uint32_t n, double drafting)
{
	struct best best = { 0 };
	double gain = 0;

	g->tree->steps += n;
	for (uint32_t i = 0; i < n; i++) {
		double latency;

		gain += list[i].reach;
		latency = pass_cost_cycle(
			g->cost, gain, drafting, g->time[i + 1]);
		if (!best.n || gain > best.rate * latency * (1 + SLACK))
			best = (struct best){ i + 1, gain, latency,
				gain / latency };
		else if (!g->rule->best_prefix)
			break;
	}
	return best;
}

static struct best best_now(const struct growth *g)
{
	struct best all = { .n = g->n };

	if (pass_cost_is_known(g->cost))
		return best_of(g, g->list, g->n, g->drafting);
	for (uint32_t i = 0; i < g->n; i++)
		all.gain += g->list[i].reach;
	return all;
}

/* ---- nodes to expand next ------------------------------------------------ */

/* Time to expand n nodes in batches of at most `most` nodes each. */
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
	double x = ((const struct entry *)a)->reach;
	double y = ((const struct entry *)b)->reach;

	return (x < y) - (x > y);
}

static void predict_nothing(struct growth *g)
{
	memcpy(g->next, g->list, g->n * sizeof(*g->list));
	g->n_next = g->n;
}

/* Whether the node of an entry may be expanded. */
static bool may_grow(const struct growth *g, const struct entry *x)
{
	return !x->requested && x->depth < g->limits->depth;
}

/* Change the predicted list as if the likeliest expandable nodes, at most
 * `most`, were expanded and each got candidates with average probabilities
 * (gain_rule.expect). Returns the number of these nodes. */
static uint32_t predict(struct growth *g, uint32_t most)
{
	struct entry child[BUILD_BATCH * TREE_CANDIDATES];
	uint32_t n = 0, m = 0, i, rows = g->limits->rows;

	for (i = 0; i < g->n_next && n < most; i++) {
		struct entry *x = &g->next[i];

		if (!may_grow(g, x))
			continue;
		x->requested = true;
		n++;
		for (uint32_t c = 0; c < g->tree->k; c++) {
			double reach = x->reach * g->rule->expect[c];

			if (reach > 0)
				child[m++] = (struct entry){ .reach = reach,
					.depth = x->depth + 1 };
		}
	}
	if (n > 1)
		qsort(child, m, sizeof(*child), falling);
	/* Merge the children, sorted by reach, into the predicted list,
	 * starting at the ends of both. Of entries with the same reach, entries
	 * that were already in the list come first. */
	i = g->n_next;
	g->n_next = i + m < rows ? i + m : rows;
	for (uint32_t at = i + m; m && at--;) {
		struct entry x = i && g->next[i - 1].reach < child[m - 1].reach
			? g->next[--i]
			: child[--m];

		if (at >= rows)
			continue;
		g->tree->steps++;
		g->next[at] = x;
	}
	return n;
}

/*
 * Returns how many of the n likeliest expandable nodes to expand now; 0 for
 * none. A number of nodes is considered only if expanding them raises the rate.
 * Of these numbers, the one with the largest rise of the rate per expansion
 * time is chosen; for this comparison the rise is computed as if the expansion
 * took no time. So several nodes are expanded together if this takes little
 * more time than one node. If no number raises the rate now, but further
 * expansions are predicted to do so, one node is expanded.
 */
static uint32_t choose_number(
	struct growth *g, uint32_t n, const struct entry *likeliest)
{
	uint32_t rows = g->limits->rows, best = 0;
	uint32_t spare = g->tree->capacity - rows - g->ahead;
	uint32_t most = g->limits->most;
	double now, rise = 0, taken = 0, drafting = g->drafting;

	/* Limit the batch by the unused room of struct tree. The first node of
	 * a batch stays in the list, because no entry added later has a larger
	 * reach. The other nodes of the batch may be dropped from the list
	 * later, but still occupy room in struct tree, which must keep room for
	 * limits->rows nodes. */
	most = most < 1 + spare ? most : 1 + spare;
	most = most < n ? most : n;
	/* While costs are unknown, expand until the list is full and the next
	 * node's candidates could not enter the list. */
	if (!pass_cost_is_known(g->cost)) {
		if (g->n == rows && likeliest->reach <= g->list[rows - 1].reach)
			return 0;
		best = g->limits->batch > 1 ? g->limits->batch : 1;
		return best < most ? best : most;
	}
	now = best_now(g).rate * (1 + SLACK);
	for (uint32_t some = 1; some <= most; some *= 2) {
		double time = expansion_time(g, some, most), free;

		predict_nothing(g);
		predict(g, some);
		if (best_of(g, g->next, g->n_next, g->drafting + time).rate <=
			now)
			continue;
		if (most == 1)
			return 1;
		free = best_of(g, g->next, g->n_next, g->drafting).rate - now;
		if (!best || free * taken > rise * time) {
			best = some;
			rise = free;
			taken = time;
		}
	}
	if (best)
		return best;
	/* No number raises the rate: predict up to FURTHER expansions of one
	 * node each. */
	predict_nothing(g);
	for (int i = 0; i < FURTHER && !best && predict(g, 1); i++) {
		drafting += expansion_time(g, 1, 1);
		best = best_of(g, g->next, g->n_next, drafting).rate > now;
	}
	return best;
}

/* ---- the tree ------------------------------------------------------------ */

static int grow(struct build *b, struct err *e)
{
	struct growth *g = b->memory;
	uint32_t at[BUILD_BATCH], n = 0, some, first = g->tree->n;
	struct best best;

	for (uint32_t i = 0; i < g->n_parents; i++)
		enter_candidates(g, g->parent[i]);
	/* Collect the likeliest expandable nodes of the list. */
	for (uint32_t i = 0; i < g->n && n < BUILD_BATCH; i++)
		if (may_grow(g, &g->list[i]))
			at[n++] = i;
	some = n ? choose_number(g, n, &g->list[at[0]]) : 0;
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
	/* Make the tree from the best prefix, the likeliest nodes first. */
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
				(2 * sizeof(*g->list) + sizeof(*g->time) +
					sizeof(*g->keep)),
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
		.parent = { root },
		.n_parents = b->limits.depth > 0,
		.drafting = b->limits.depth > 0 ? b->pass_cost->begin : 0 };
	g->list = (struct entry *)(g + 1);
	g->next = g->list + rows;
	g->time = (double *)(g->next + rows);
	g->keep = (uint32_t *)(g->time + rows + 1);
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
