/*
 * The builders that weigh no costs (chain, SpecInfer, EAGLE-2, OPT-Tree,
 * EdgeLLM) compared with naive versions, which use no struct tree. The naive
 * versions keep lists of paths and compute the candidates after a path with the
 * drafter's hash.
 */
#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/tree_draw.h"

#include <math.h>
#include <string.h>

#define POOL   4096
#define ROUNDS 150

static struct hash_drafter random_drafter(void)
{
	return (struct hash_drafter){
		.seed = seed + 1000 * drawn,
		.k = 1 + draw(6),
		.sharp = draw(8),
		.bare = draw(3) ? 0 : 4,
	};
}

/* ---- paths without a tree ------------------------------------------------ */

struct item {
	uint64_t path;
	double p;
	uint32_t depth;
};

struct pool {
	uint32_t n;
	struct item item[POOL];
};

static int likelier(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->p != y->p)
		return x->p < y->p ? 1 : -1;
	return x->depth < y->depth ? -1 : x->depth > y->depth;
}

static int by_path(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->path < y->path ? -1 : x->path > y->path;
}

static void sort(struct pool *p)
{
	qsort(p->item, p->n, sizeof(*p->item), likelier);
}

static void add_children(
	const struct hash_drafter *d, struct pool *p, struct item of)
{
	struct candidate c[TREE_CANDIDATES];
	uint32_t n = hash_candidates(d, of.path, c);

	for (uint32_t i = 0; i < n; i++) {
		assert_true(p->n < POOL);
		p->item[p->n++] = (struct item){
			.path = hash_child(of.path, c[i].token),
			.p = of.p * (double)c[i].q,
			.depth = of.depth + 1,
		};
	}
}

static void append(struct pool *to, const struct pool *from)
{
	assert_true(to->n + from->n <= POOL);
	memcpy(to->item + to->n, from->item, from->n * sizeof(*from->item));
	to->n += from->n;
}

static struct item root_of(const struct hash_drafter *d)
{
	return (struct item){ .path = hash_root(d), .p = 1 };
}

/* The nodes of the tree below the root must be the items of the pool, in any
 * order. */
static void same_paths(const struct hash_drafter *d, const struct tree *t,
	struct pool *want, const char *what)
{
	static struct pool got;

	got.n = 0;
	for (uint32_t u = 1; u < t->n; u++)
		got.item[got.n++].path = hash_node(d, t, u);
	if (got.n != want->n)
		fail_msg("%s: %u nodes, not %u", what, got.n, want->n);
	qsort(got.item, got.n, sizeof(*got.item), by_path);
	qsort(want->item, want->n, sizeof(*want->item), by_path);
	for (uint32_t i = 0; i < got.n; i++)
		if (got.item[i].path != want->item[i].path)
			fail_msg("%s: another node", what);
}

static double expected(const struct tree *t)
{
	double sum = 0;

	for (uint32_t u = 1; u < t->n; u++)
		sum += t->path[u];
	return sum;
}

/* ---- chain, SpecInfer ---------------------------------------------------- */

static void test_chain(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		struct hash_drafter h = random_drafter();
		const struct drafter d = hash_drafter(&h, 1);
		const struct build_limits l = { 1 + draw(12), draw(12) };
		struct tree *t = open_tree(l.rows, h.k);
		uint64_t path = hash_root(&h);
		uint32_t n = 1;
		struct build b = { 0 };
		struct err e = { 0 };

		hash_begin(&h, t);
		build_chain_begin(&b, t, &l);
		assert_ok(build_run(&b, &d, &e), &e);
		hash_check_tree(&h, t, l.rows, l.depth);
		assert_int_equal(t->leaves, 1);
		for (; n < l.rows && n <= l.depth; n++) {
			struct candidate c[TREE_CANDIDATES];

			if (!hash_candidates(&h, path, c))
				break;
			path = hash_child(path, c[0].token);
		}
		assert_int_equal(t->n, n);
		assert_true(hash_node(&h, t, t->n - 1) == path);
		/* The last node of a chain of full length is not expanded. */
		assert_true(h.nodes <= n);
		assert_true(h.bare || n == 1 || h.nodes == n - 1);
		tree_close(t);
	}
}

static void test_specinfer_usual(void **state)
{
	static const uint32_t width[] = { 1, 1, 3, 1, 1, 1, 1, 1 };
	struct hash_drafter h = { .seed = harness_seed(), .k = 8, .sharp = 2 };
	const struct drafter d = hash_drafter(&h, 4);
	const struct build_limits l = { 64, 10 };
	struct tree *t = open_tree(l.rows, h.k);
	uint32_t at[10] = { 0 };
	struct build b = { 0 };
	struct err e = { 0 };

	hash_begin(&h, t);
	build_specinfer_begin(&b, t, &l, width, 8);
	assert_ok(build_run(&b, &d, &e), &e);
	hash_check_tree(&h, t, l.rows, l.depth);
	assert_int_equal(t->n, 1 + 20);
	assert_int_equal(t->leaves, 3);
	for (uint32_t u = 0; u < t->n; u++)
		at[t->depth[u]]++;
	for (int i = 0; i <= 8; i++)
		assert_int_equal(at[i], i < 3 ? 1 : 3);
	/* One call of expand for each depth from 1 to 7. The root was expanded
	 * before, and the leaves at depth 8 are not expanded. */
	assert_int_equal(h.calls, 7);
	assert_int_equal(h.nodes, 21 - 3);
	tree_close(t);
}

static void test_specinfer_any(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		static struct pool layer, next, all;
		struct hash_drafter h = random_drafter();
		const struct drafter d = hash_drafter(&h, 4);
		struct build_limits l = { 80, draw(7) };
		uint32_t width[5], n = draw(6);
		struct tree *t = open_tree(l.rows, h.k);
		struct build b = { 0 };
		struct err e = { 0 };

		all.n = 0;
		layer.n = 1;
		layer.item[0] = root_of(&h);
		for (uint32_t i = 0; i < n; i++) {
			width[i] = draw(4);
			next.n = 0;
			for (uint32_t u = 0; u < layer.n; u++) {
				uint32_t was = next.n;

				add_children(&h, &next, layer.item[u]);
				if (next.n > was + width[i])
					next.n = was + width[i];
			}
			if (i < l.depth)
				append(&all, &next);
			layer = next;
		}
		/* The tree is filled layer by layer, from left to right, up to
		 * its maximum number of rows. */
		if (all.n >= l.rows)
			all.n = l.rows - 1;
		hash_begin(&h, t);
		build_specinfer_begin(&b, t, &l, width, n);
		assert_ok(build_run(&b, &d, &e), &e);
		hash_check_tree(&h, t, l.rows, l.depth);
		same_paths(&h, t, &all, "specinfer");
		tree_close(t);
	}
}

/* ---- EAGLE-2, OPT-Tree --------------------------------------------------- */

static void naive_eagle2(const struct hash_drafter *h,
	const struct build_limits *l, uint32_t beam, struct pool *all)
{
	static struct pool layer, next;

	all->n = 0;
	layer.n = 1;
	layer.item[0] = root_of(h);
	for (uint32_t depth = 0; depth < l->depth; depth++) {
		next.n = 0;
		for (uint32_t u = 0; u < layer.n; u++)
			add_children(h, &next, layer.item[u]);
		append(all, &next);
		sort(&next);
		next.n = next.n < beam ? next.n : beam;
		layer = next;
	}
	sort(all);
	all->n = all->n < l->rows - 1 ? all->n : l->rows - 1;
}

static void test_eagle2(void **state)
{
	static struct pool want;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		struct hash_drafter h = random_drafter();
		const struct drafter d = hash_drafter(&h, 8);
		const struct build_limits l = { 1 + draw(60), draw(8) };
		uint32_t beam = 1 + draw(10), room = 1 + beam * 7;
		struct tree *t = open_tree(l.rows > room ? l.rows : room, h.k);
		struct build b = { 0 };
		struct err e = { 0 };

		naive_eagle2(&h, &l, beam, &want);
		hash_begin(&h, t);
		build_eagle2_begin(&b, t, &l, beam);
		assert_ok(build_run(&b, &d, &e), &e);
		hash_check_tree(&h, t, l.rows, l.depth);
		same_paths(&h, t, &want, "eagle2");
		tree_close(t);
	}
}

/* If the tree has room for no more than `rows` nodes, EAGLE-2 puts fewer than
 * `beam` nodes into a layer. */
static void test_eagle2_small_room(void **state)
{
	struct hash_drafter h = { .seed = harness_seed(), .k = 8, .sharp = 2 };
	const struct drafter d = hash_drafter(&h, 8);
	const struct build_limits l = { 16, 8 };
	struct tree *t = open_tree(l.rows, h.k);
	struct build b = { 0 };
	struct err e = { 0 };

	hash_begin(&h, t);
	build_eagle2_begin(&b, t, &l, 10);
	assert_ok(build_run(&b, &d, &e), &e);
	hash_check_tree(&h, t, l.rows, l.depth);
	assert_int_equal(t->n, 16);
	tree_close(t);
}

/*
 * The largest sum of the path probabilities of `left` nodes that form a tree
 * with the root. It is found by trying each subtree: a node is either included,
 * or excluded with all its descendants.
 */
static double best_of(const struct pool *p, const uint32_t *parent, uint32_t at,
	uint32_t left, bool *in)
{
	double with = 0, without;

	if (at == p->n || !left)
		return 0;
	in[at] = false;
	without = best_of(p, parent, at + 1, left, in);
	if (parent[at] == UINT32_MAX || in[parent[at]]) {
		in[at] = true;
		with = p->item[at].p + best_of(p, parent, at + 1, left - 1, in);
		in[at] = false;
	}
	return fmax(with, without);
}

static double brute_force(const struct hash_drafter *h, uint32_t rows)
{
	static struct pool p;
	uint32_t parent[POOL];
	bool in[POOL];

	p.n = 0;
	add_children(h, &p, root_of(h));
	for (uint32_t u = 0; u < p.n; u++)
		parent[u] = UINT32_MAX;
	for (uint32_t u = 0, n; u < p.n && p.item[u].depth < 3; u++) {
		n = p.n;
		add_children(h, &p, p.item[u]);
		for (; n < p.n; n++)
			parent[n] = u;
	}
	return best_of(&p, parent, 0, rows - 1, in);
}

static void test_opt_is_best(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		struct hash_drafter h = random_drafter();
		const struct drafter d = hash_drafter(&h, 8);
		const struct build_limits l = { 1 + draw(8), 3 };
		struct tree *t;
		struct build b = { 0 };
		struct err e = { 0 };

		h.k = 1 + draw(2);
		h.coarse = draw(2);
		t = open_tree(l.rows, h.k);
		hash_begin(&h, t);
		build_opt_begin(&b, t, &l, 0);
		assert_ok(build_run(&b, &d, &e), &e);
		hash_check_tree(&h, t, l.rows, l.depth);
		assert_close(expected(t), brute_force(&h, l.rows), 1e-12,
			"expected length");
		tree_close(t);
	}
}

/* OPT-Tree with layers of rows - 1 nodes, as in the OPT-Tree paper. */
static void naive_opt(const struct hash_drafter *h,
	const struct build_limits *l, double threshold, struct pool *best)
{
	static struct pool layer, next, all;
	double before = 0;

	all.n = best->n = 0;
	layer.n = 1;
	layer.item[0] = root_of(h);
	for (uint32_t depth = 1; depth <= l->depth; depth++) {
		double now = 0;

		next.n = 0;
		for (uint32_t u = 0; u < layer.n; u++)
			add_children(h, &next, layer.item[u]);
		sort(&next);
		if (next.n > l->rows - 1)
			next.n = l->rows - 1;
		layer = next;
		append(&all, &next);
		*best = all;
		sort(best);
		if (best->n > l->rows - 1)
			best->n = l->rows - 1;
		for (uint32_t i = 0; i < best->n; i++)
			now += best->item[i].p;
		if (now - before <= threshold)
			return;
		before = now;
	}
}

static void test_opt(void **state)
{
	static struct pool want;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		struct hash_drafter h = random_drafter();
		const struct drafter d = hash_drafter(&h, 8);
		const struct build_limits l = { 1 + draw(50), draw(9) };
		double threshold = 0.2 * draw(4);
		struct tree *t = open_tree(l.rows, h.k);
		struct build b = { 0 };
		struct err e = { 0 };

		naive_opt(&h, &l, threshold, &want);
		hash_begin(&h, t);
		build_opt_begin(&b, t, &l, threshold);
		assert_ok(build_run(&b, &d, &e), &e);
		hash_check_tree(&h, t, l.rows, l.depth);
		same_paths(&h, t, &want, "opt");
		tree_close(t);
	}
}

/* ---- EdgeLLM ------------------------------------------------------------- */

static void naive_edgellm(const struct hash_drafter *h,
	const struct build_limits *l, double alpha, struct pool *p)
{
	static struct pool next;
	bool open[POOL] = { false };
	struct item of = root_of(h);

	p->n = 0;
	for (;;) {
		uint32_t best = POOL;

		next.n = 0;
		if (of.depth < l->depth)
			add_children(h, &next, of);
		if (!next.n)
			return;
		for (uint32_t i = 0; i < 2 && i < next.n; i++)
			if (p->n + 1 < l->rows) {
				open[p->n] = next.item[i].depth < l->depth;
				p->item[p->n++] = next.item[i];
			}
		for (uint32_t u = 0; u < p->n; u++)
			if (open[u] &&
				(best == POOL ||
					p->item[u].p > p->item[best].p))
				best = u;
		if (best == POOL || p->item[best].p < alpha ||
			p->n + 1 == l->rows)
			return;
		open[best] = false;
		of = p->item[best];
	}
}

static void test_edgellm(void **state)
{
	static struct pool want;
	uint32_t by_alpha = 0;

	seed = harness_seed();
	for (int round = 0; round < 2 * ROUNDS; round++) {
		struct hash_drafter h = random_drafter();
		const struct drafter d = hash_drafter(&h, 4);
		const struct build_limits l = { 1 + draw(60), draw(9) };
		struct edgellm p = { .alpha = exp(-9. * draw(100) / 100) };
		struct tree *t = open_tree(l.rows, h.k);
		struct build b = { 0 };
		struct err e = { 0 };

		h.coarse = draw(2);
		naive_edgellm(&h, &l, p.alpha, &want);
		hash_begin(&h, t);
		build_edgellm_begin(&b, t, &l, &p);
		assert_ok(build_run(&b, &d, &e), &e);
		hash_check_tree(&h, t, l.rows, l.depth);
		same_paths(&h, t, &want, "edgellm");
		assert_true(h.largest <= 1);
		by_alpha += t->n > 5 && t->n < l.rows;
		tree_close(t);
	}
	assert_true(by_alpha > 10);
}

static void test_edgellm_pace(void **state)
{
	struct edgellm p;

	edgellm_init(&p);
	assert_close(p.alpha, 0.01, 0, "alpha at first");
	edgellm_saw(&p, 0, 0);
	assert_close(p.alpha, 0.01, 0, "nothing drafted");
	edgellm_saw(&p, 5, 5);
	assert_close(p.alpha, 0.005, 1e-15, "all");
	edgellm_saw(&p, 4, 0);
	assert_close(p.alpha, 0.01, 1e-15, "none");
	edgellm_saw(&p, 4, 3);
	assert_close(p.alpha, 0.011892071, 1e-9, "three of four");
	for (int i = 0; i < 20; i++)
		edgellm_saw(&p, 1, 0);
	assert_close(p.alpha, 0.9, 0, "most");
	for (int i = 0; i < 20; i++)
		edgellm_saw(&p, 1, 1);
	assert_close(p.alpha, 1e-4, 0, "least");
}

/* ---- equal values -------------------------------------------------------- */

/* If all candidates have equal q, the lowest token of the first parent comes
 * next. */
static void test_ties(void **state)
{
	const struct build_limits l = { 4, 2 };

	for (int i = 0; i < 2; i++) {
		struct hash_drafter h = { .seed = 9, .k = 2, .mass = 1 };
		const struct drafter d = hash_drafter(&h, 2);
		struct tree *t = open_tree(l.rows, h.k);
		struct candidate c[2];
		struct build b = { 0 };
		struct err e = { 0 };

		hash_begin(&h, t);
		if (i)
			build_opt_begin(&b, t, &l, 0);
		else
			build_eagle2_begin(&b, t, &l, 2);
		assert_ok(build_run(&b, &d, &e), &e);
		assert_int_equal(t->n, 4);
		assert_int_equal(t->parent[3], 1);
		hash_candidates(&h, hash_node(&h, t, 1), c);
		assert_true(c[0].token < c[1].token);
		assert_int_equal(t->token[3], c[0].token);
		tree_close(t);
	}
}

/* The expected length must grow by more than OPT-Tree's threshold; growth equal
 * to the threshold is not enough. For EdgeLLM a value equal to alpha is
 * enough. */
static void test_thresholds(void **state)
{
	struct hash_drafter h = { .seed = 9, .k = 1, .mass = 1 };
	const struct drafter d = hash_drafter(&h, 2);
	const struct build_limits l = { 20, 9 };
	const struct edgellm pace = { .alpha = 0.5 };
	struct tree *t = open_tree(l.rows, 1);
	struct build b = { 0 };
	struct err e = { 0 };

	hash_begin(&h, t);
	build_opt_begin(&b, t, &l, 1);
	assert_ok(build_run(&b, &d, &e), &e);
	assert_int_equal(t->n, 2);
	hash_begin(&h, t);
	build_opt_begin(&b, t, &l, 0.99);
	assert_ok(build_run(&b, &d, &e), &e);
	assert_int_equal(t->n, 10);
	tree_close(t);
	h.k = 2;
	t = open_tree(l.rows, 2);
	hash_begin(&h, t);
	build_edgellm_begin(&b, t, &l, &pace);
	assert_ok(build_run(&b, &d, &e), &e);
	assert_int_equal(t->n, 1 + 2 + 4);
	tree_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_chain),
	cmocka_unit_test(test_specinfer_usual),
	cmocka_unit_test(test_specinfer_any),
	cmocka_unit_test(test_eagle2),
	cmocka_unit_test(test_eagle2_small_room),
	cmocka_unit_test(test_opt_is_best),
	cmocka_unit_test(test_opt),
	cmocka_unit_test(test_edgellm),
	cmocka_unit_test(test_edgellm_pace),
	cmocka_unit_test(test_ties),
	cmocka_unit_test(test_thresholds),
};

TEST_FILE(tests)
