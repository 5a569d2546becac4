/*
 * Lever's builder compared with the algorithm as the Lever paper prints it,
 * where every node is expanded when it is added, the frontier (the nodes that
 * can be added next) is a list, and all sums are computed anew. It is also
 * compared with every possible tree if there are few.
 */
#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "host/tree/tree_cost.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/greedy_check.h"
#include "tests/host/tree/tree_draw.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define ROWS_MOST 48
#define ROUNDS    120
#define SHALLOW   1000 /* a depth limit that no tree reaches */

static struct hash_drafter random_drafter(void)
{
	return (struct hash_drafter){
		.seed = seed + 1000 * drawn,
		.k = 1 + draw(8),
		.sharp = draw(10),
		.coarse = draw(4) == 0,
		.bare = draw(3) ? 0 : 5,
	};
}

static struct gain_rule random_lever(bool best_prefix)
{
	struct gain_rule p;

	gain_rule_init(&p);
	p.best_prefix = best_prefix;
	if (draw(2))
		p.hit = 0.2 + unit();
	return p;
}

/* ---- the algorithm as printed -------------------------------------------- */

struct naive_node {
	uint64_t path;
	int32_t token, parent;
	uint32_t depth, children;
	double reach;
	uint32_t n;
	struct candidate candidate[TREE_CANDIDATES];
	bool joined[TREE_CANDIDATES];
};

struct naive {
	uint32_t n, depth;
	struct naive_node node[ROWS_MOST];
	/* Gain and latency of the tree of the first n nodes. */
	double gain[ROWS_MOST + 1], latency[ROWS_MOST + 1];
};

static double naive_latency(const struct naive *a, uint32_t rows,
	uint32_t extra_leaves, uint32_t extra_drafted)
{
	uint32_t leaves = extra_leaves, drafted = extra_drafted;

	for (uint32_t u = 0; u < a->n; u++) {
		leaves += !a->node[u].children;
		drafted += a->node[u].depth < a->depth;
	}
	return drafted * cost_draft(&cost) + cost_verify(&cost, rows, leaves);
}

static void naive_note(struct naive *a)
{
	a->gain[a->n] = 1;
	for (uint32_t u = 1; u < a->n; u++)
		a->gain[a->n] += a->node[u].reach;
	a->latency[a->n] = naive_latency(a, a->n, 0, 0);
}

static void naive_join(struct naive *a, const struct hash_drafter *h,
	double rho, uint32_t parent, uint32_t c)
{
	struct naive_node *p = &a->node[parent], *v = &a->node[a->n++];

	*v = (struct naive_node){
		.path = hash_child(p->path, p->candidate[c].token),
		.token = p->candidate[c].token,
		.parent = (int32_t)parent,
		.depth = p->depth + 1,
		.reach = p->reach * rho * (double)p->candidate[c].q,
	};
	p->joined[c] = true;
	p->children++;
	if (v->depth < a->depth)
		v->n = hash_candidates(h, v->path, v->candidate);
	naive_note(a);
}

/* Grow the tree to its limits or until the stop rule ends it (no node gains
 * more per cost than the whole tree). */
static void naive_grow(struct naive *a, const struct hash_drafter *h,
	const struct build_limits *l, double rho, bool to_the_end)
{
	bool priced = cost_verify(&cost, 1, 1) > 0;

	memset(a, 0, sizeof(*a));
	a->n = 1;
	a->depth = l->depth;
	a->node[0].path = hash_root(h);
	a->node[0].reach = 1;
	if (l->depth)
		a->node[0].n = hash_candidates(
			h, a->node[0].path, a->node[0].candidate);
	naive_note(a);
	while (a->n < l->rows) {
		double best = 0, now = a->latency[a->n];
		uint32_t parent = 0, c = 0;

		for (uint32_t u = 0; u < a->n; u++)
			for (uint32_t i = 0; i < a->node[u].n; i++) {
				struct naive_node *p = &a->node[u];
				double r = p->reach * rho *
					(double)p->candidate[i].q;
				double d = naive_latency(a, a->n + 1,
						   p->children > 0,
						   p->depth + 1 < a->depth) -
					now;

				d = priced ? fmax(d, 1e-6 * now) : 1;
				if (!p->joined[i] && r / d > best) {
					best = r / d;
					parent = u;
					c = i;
				}
			}
		if (!(best > 0) ||
			(priced && !to_the_end && best <= a->gain[a->n] / now))
			return;
		naive_join(a, h, rho, parent, c);
	}
}

static double rate_at(const struct naive *a, uint32_t n)
{
	return a->gain[n] / a->latency[n];
}

static uint32_t naive_best(const struct naive *a, bool best_prefix)
{
	uint32_t best = 1;

	if (!best_prefix || !(cost_verify(&cost, 1, 1) > 0))
		return a->n;
	for (uint32_t n = 2; n <= a->n; n++)
		if (rate_at(a, n) > rate_at(a, best))
			best = n;
	return best;
}

static void same_tree(const struct tree *t, const struct naive *a, uint32_t n)
{
	if (t->n != n)
		fail_msg("%u nodes, not %u", t->n, n);
	for (uint32_t u = 1; u < n; u++)
		if (t->token[u] != a->node[u].token ||
			t->parent[u] != a->node[u].parent)
			fail_msg("node %u of %u is another", u, n);
}

/* ---- the same tree ------------------------------------------------------- */

/*
 * The builder must build the tree of the printed algorithm however it expands
 * nodes: late, in batches, ahead of time, or not at all when no better node can
 * follow. Its G and L (gain and latency) must be those that the printed
 * algorithm computes anew for this tree.
 */
static void check_as_printed(bool best_prefix, uint32_t *shorter)
{
	static const uint32_t batch[] = { 1, 2, 3, 8, 64 };
	struct hash_drafter h = random_drafter();
	const struct build_limits l = { 1 + draw(ROWS_MOST),
		draw(3) ? draw(9) : SHALLOW };
	struct gain_rule first = random_lever(best_prefix);
	static struct naive a;
	uint32_t n;

	random_cost(l.rows);
	naive_grow(&a, &h, &l, gain_rule_reliability(&first), best_prefix);
	n = naive_best(&a, best_prefix);
	*shorter += n < a.n;
	for (uint32_t i = 0; i < 10; i++) {
		/* In every second build the tree can hold twice as many nodes
		 * as it may have rows. */
		struct tree *t = open_tree(l.rows * (1 + i % 2), h.k);
		struct gain_rule p = first;

		build(&h, batch[i / 2], t, &l, &p);
		same_tree(t, &a, n);
		assert_close(p.gain, a.gain[n], 1e-12 * a.gain[n], "gain");
		if (cost_verify(&cost, 1, 1) > 0)
			assert_close(p.latency, a.latency[n],
				1e-12 * a.latency[n], "latency");
		else
			assert_close(p.latency, 0, 0, "latency");
		assert_true(p.gain <= 1 + fmin(l.depth, t->n) + 1e-6);
		assert_true(h.largest <= batch[i / 2]);
		tree_close(t);
	}
}

static void test_as_printed(void **state)
{
	uint32_t shorter = 0;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++)
		check_as_printed(false, &shorter);
	assert_int_equal(shorter, 0);
}

static void test_best_prefix_as_printed(void **state)
{
	uint32_t shorter = 0;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++)
		check_as_printed(true, &shorter);
	assert_true(shorter > ROUNDS / 10);
}

/* ---- the best tree ------------------------------------------------------- */

#define FEW 14

/* All nodes that a tree can have down to a depth, without the root. */
struct all {
	uint32_t n;
	double reach[FEW];
	int32_t parent[FEW]; /* -1: the parent is the root */
};

static void list_all(struct all *a, const struct hash_drafter *h, uint64_t path,
	int32_t parent, double reach, double rho, uint32_t depth)
{
	struct candidate c[TREE_CANDIDATES];
	uint32_t n = hash_candidates(h, path, c);

	if (!depth)
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = a->n++;

		assert_true(at < FEW);
		a->reach[at] = reach * rho * (double)c[i].q;
		a->parent[at] = parent;
		list_all(a, h, hash_child(path, c[i].token), (int32_t)at,
			a->reach[at], rho, depth - 1);
	}
}

/* The best rate (gain / latency) of all connected trees that have at most
 * `rows` rows. The latency of n rows is step[n]. */
static double best_rate(const struct all *a, uint32_t rows, const double *step)
{
	double best = 0;

	for (uint32_t set = 0; set < 1U << a->n; set++) {
		uint32_t n = 1;
		double gain = 1;
		bool hangs = true;

		for (uint32_t u = 0; u < a->n && hangs; u++) {
			if (!(set >> u & 1))
				continue;
			hangs = a->parent[u] < 0 || set >> a->parent[u] & 1;
			gain += a->reach[u];
			n++;
		}
		if (hangs && n <= rows)
			best = fmax(best, gain / step[n]);
	}
	return best;
}

static const struct {
	uint32_t k, depth;
} few[] = { { 1, 7 }, { 7, 1 }, { 2, 2 }, { 2, 3 }, { 3, 2 } };

/* Set costs that depend only on rows. If they are convex, each row adds at
 * least as much cost as the row before it. */
static void price_rows(double step[FEW + 2], bool convex)
{
	double rise = 10 * unit();

	cost_init(&cost, 1);
	step[1] = 20 + 200 * unit();
	for (uint32_t n = 1; n <= FEW + 1; n++) {
		if (n > 1)
			step[n] = step[n - 1] + rise;
		if (convex)
			rise += 5 * unit();
		else
			rise = draw(4) ? 0.01 : 60 * unit();
		cost_saw_verify(&cost, n, 1, step[n]);
	}
}

static void check_best(bool best_prefix, bool convex)
{
	uint32_t i = draw(5);
	struct hash_drafter h = {
		.seed = seed + drawn, .k = few[i].k, .sharp = draw(4)
	};
	const struct build_limits l = { 2 + draw(FEW), few[i].depth };
	struct tree *t = open_tree(l.rows, h.k);
	struct gain_rule p = random_lever(best_prefix);
	double step[FEW + 2], best;
	struct all a = { 0 };

	price_rows(step, convex);
	list_all(&a, &h, hash_root(&h), -1, 1, gain_rule_reliability(&p),
		l.depth);
	best = best_rate(&a, l.rows, step);
	build(&h, 1, t, &l, &p);
	assert_close(p.latency, step[t->n], 1e-9, "latency");
	assert_close(p.gain / p.latency, best, 1e-9 * best, "rate");
	tree_close(t);
}

/* Greedy growth finds the best tree if each additional row adds at least as
 * much cost as the row before it. With best_prefix (growth continues to the
 * limits, and the best tree on the way is used), it finds the best tree for any
 * costs. */
static void test_best_of_all_trees(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		check_best(false, true);
		check_best(true, true);
		check_best(true, false);
	}
}

static double chain_rate(
	struct hash_drafter *h, const struct gain_rule *p, uint32_t length)
{
	const struct build_limits l = { 1 + length, length };
	const struct drafter d = hash_drafter(h, 1);
	struct tree *t = open_tree(l.rows, h->k);
	double gain = 0, time;
	struct build b = { 0 };
	struct err e = { 0 };

	hash_begin(h, t);
	build_chain_begin(&b, t, &l);
	assert_ok(build_run(&b, &d, &e), &e);
	for (uint32_t u = 0; u < t->n; u++)
		gain += t->path[u] * pow(gain_rule_reliability(p), t->depth[u]);
	time = t->n * cost_draft(&cost) + cost_verify(&cost, t->n, 1);
	tree_close(t);
	return gain / time;
}

/*
 * The costs are those of the row tiles of an NPU and of flash I/O. The tree
 * with best_prefix must not be worse than any stage of its own growth, than a
 * chain, or than the tree with the stop rule, and must sometimes be better than
 * the latter.
 */
static void test_best_prefix_on_tiles(void **state)
{
	const struct build_limits l = { 32, SHALLOW };
	uint32_t better = 0;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		struct hash_drafter h = {
			.seed = seed + drawn, .k = 8, .sharp = 1 + draw(6)
		};
		struct tree *t = open_tree(l.rows, h.k);
		struct gain_rule p = random_lever(true), stop = p;
		static struct naive a;
		double rate;

		stop.best_prefix = false;
		cost_init(&cost, 1);
		cost_saw_draft(&cost, 1, 10 * unit());
		for (uint32_t n = 1; n <= 32; n++)
			cost_saw_verify(&cost, n, 1, 950 + 90 * ceil(n / 8.));
		build(&h, 1, t, &l, &p);
		rate = p.gain / p.latency;
		naive_grow(&a, &h, &l, gain_rule_reliability(&p), true);
		for (uint32_t n = 1; n <= a.n; n++)
			assert_true(rate >= rate_at(&a, n) - 1e-12);
		assert_true(rate >= chain_rate(&h, &p, 8) - 1e-12);
		build(&h, 1, t, &l, &stop);
		assert_true(rate >= stop.gain / stop.latency);
		better += rate > stop.gain / stop.latency * 1.001;
		tree_close(t);
	}
	assert_true(better > ROUNDS / 10);
}

/* If trees of all lengths have the same rate, the shortest one is used. */
static void test_equal_rates(void **state)
{
	const struct build_limits l = { 20, SHALLOW };
	struct hash_drafter h = { .seed = 9, .k = 1, .mass = 1 };
	struct tree *t = open_tree(l.rows, h.k);
	struct gain_rule p;

	gain_rule_init(&p);
	p.best_prefix = true;
	cost_init(&cost, 1);
	for (uint32_t n = 1; n <= 20; n++)
		cost_saw_verify(&cost, n, 1, n < 5 ? 400 : 100 * n);
	build(&h, 1, t, &l, &p);
	assert_int_equal(t->n, 4);
	tree_close(t);
}

/* ---- nodes that are not drafted ------------------------------------------ */

/* Each tile of eight rows costs so much to verify that the best tree has eight
 * nodes. The builder must expand few other nodes: those whose children could
 * not make a tree better are not expanded. */
static void test_hopeless_is_not_drafted(void **state)
{
	const struct build_limits l = { 40, SHALLOW };
	struct hash_drafter h = { .seed = harness_seed(), .k = 8, .sharp = 3 };
	struct tree *t = open_tree(l.rows, h.k);
	struct gain_rule p;

	cost_init(&cost, 1);
	for (uint32_t n = 1; n <= 40; n++)
		cost_saw_verify(&cost, n, 1, 400 * ceil(n / 8.));
	gain_rule_init(&p);
	p.best_prefix = true;
	build(&h, 1, t, &l, &p);
	assert_int_equal(t->n, 8);
	assert_true(h.nodes <= 10);
	tree_close(t);
}

/* If nodes are expanded in batches, some of them ahead of time, the drafter is
 * called less often than if nodes are expanded one by one. One by one, fewer
 * nodes are expanded than the trees have. */
static void test_calls_and_nodes(void **state)
{
	const struct build_limits l = { 32, SHALLOW };
	uint32_t calls[2] = { 0 }, nodes[2] = { 0 };

	seed = harness_seed();
	cost_init(&cost, 1);
	for (uint32_t round = 0; round < 40; round++) {
		struct hash_drafter h = {
			.seed = seed + round, .k = 8, .sharp = 4
		};
		struct tree *t = open_tree(2 * l.rows, h.k);
		struct gain_rule p;

		for (int i = 0; i < 2; i++) {
			uint32_t used = 0;

			gain_rule_init(&p);
			build(&h, i ? 8 : 1, t, &l, &p);
			for (uint32_t u = 0; u < t->n; u++)
				used += t->n_children[u] > 0;
			assert_int_equal(p.expanded, h.nodes);
			assert_int_equal(p.wasted, h.nodes - used);
			calls[i] += h.calls;
			nodes[i] += h.nodes;
		}
		tree_close(t);
	}
	print_message("%u calls of %u nodes one by one, %u of %u in batches "
		      "of 8, for %u\n",
		calls[0], nodes[0], calls[1], nodes[1], 40 * l.rows);
	assert_true(nodes[0] < 40 * l.rows);
	assert_true(calls[1] < calls[0] / 3);
	assert_true(nodes[1] < 2 * nodes[0]);
}

/* If the cost of verification is unknown, the tree grows to its limits, even if
 * the cost of drafting is known. */
static void test_no_cost(void **state)
{
	const struct build_limits l = { 20, 6 };
	struct hash_drafter h = { .seed = harness_seed(), .k = 4, .sharp = 1 };
	struct tree *t = open_tree(l.rows, h.k);

	cost_init(&cost, 1);
	cost_saw_draft(&cost, 1, 5);
	for (int best_prefix = 0; best_prefix < 2; best_prefix++) {
		struct gain_rule p;

		gain_rule_init(&p);
		p.best_prefix = best_prefix;
		build(&h, 1, t, &l, &p);
		assert_int_equal(t->n, 20);
		assert_close(p.latency, 0, 0, "latency");
	}
	tree_close(t);
}

static void test_limits(void **state)
{
	static const struct build_limits limits[] = { { 1, 5 }, { 9, 0 } };
	struct hash_drafter h = { .seed = harness_seed(), .k = 4 };

	cost_init(&cost, 1);
	for (int i = 0; i < 4; i++) {
		struct tree *t = open_tree(9, h.k);
		struct gain_rule p;

		gain_rule_init(&p);
		p.best_prefix = i / 2;
		build(&h, 4, t, &limits[i % 2], &p);
		assert_int_equal(t->n, 1);
		assert_int_equal(h.calls, 0);
		assert_close(p.gain, 1, 0, "gain");
		assert_int_equal(p.expanded, 1);
		assert_int_equal(p.wasted, 1);
		tree_close(t);
	}
}

static void test_no_room(void **state)
{
	const struct build_limits l = { 30, 6 };

	cost_init(&cost, 1);
	cost_saw_verify(&cost, 1, 1, 100);
	for (uint32_t i = 0; i < 60; i++) {
		struct hash_drafter h = {
			.seed = i, .k = 3, .sharp = 1, .room = 1 + i / 3
		};
		struct tree *t = open_tree(50, h.k);
		struct build b = { 0 };
		struct err e = { 0 };
		struct drafter d;
		struct gain_rule p;

		gain_rule_init(&p);
		p.best_prefix = i % 2;
		build(&h, 1 + i % 3 * 3, t, &l, &p);
		assert_true(t->n > 1);
		assert_int_equal(p.expanded, h.nodes);
		/* The drafter has no expansion left, not even for the root, so
		 * the tree has only the root. */
		tree_reset(t, 7);
		h.room = 1;
		d = hash_drafter(&h, 4);
		build_greedy_begin(&b, t, &l, &cost, &p);
		assert_ok(build_run(&b, &d, &e), &e);
		assert_int_equal(t->n, 1);
		tree_close(t);
	}
}

static void test_drafter_fails(void **state)
{
	const struct build_limits l = { 30, 6, .batch = 3 };

	cost_init(&cost, 1);
	for (uint32_t fail = 1; fail < 5; fail++) {
		struct hash_drafter h = {
			.seed = fail, .k = 3, .sharp = 1, .fail = fail
		};
		struct drafter d = hash_drafter(&h, 3);
		struct tree *t = open_tree(50, h.k);
		struct build b = { 0 };
		struct err e = { 0 };
		struct gain_rule p;

		gain_rule_init(&p);
		hash_begin(&h, t);
		build_greedy_begin(&b, t, &l, &cost, &p);
		assert_int_equal(build_run(&b, &d, &e), -EIO);
		hash_check_tree(&h, t, l.rows, l.depth);
		tree_close(t);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_as_printed),
	cmocka_unit_test(test_best_prefix_as_printed),
	cmocka_unit_test(test_best_of_all_trees),
	cmocka_unit_test(test_best_prefix_on_tiles),
	cmocka_unit_test(test_equal_rates),
	cmocka_unit_test(test_hopeless_is_not_drafted),
	cmocka_unit_test(test_calls_and_nodes),
	cmocka_unit_test(test_no_cost),
	cmocka_unit_test(test_limits),
	cmocka_unit_test(test_no_room),
	cmocka_unit_test(test_drafter_fails),
};

TEST_FILE(tests)
