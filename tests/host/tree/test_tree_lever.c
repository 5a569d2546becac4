/*
 * Lever's builder with a cost that is computed from parts. No tree of the
 * expanded nodes may be better than the builder's tree: the test tries all
 * trees if there are few. The builder must also expand enough nodes: the test
 * uses a draft whose candidates have the same probabilities after every node,
 * and compares with trees of all nodes.
 */
#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/pass_cost.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/tree_draw.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define ROUNDS 150
/* maximum number of nodes; small, as all trees are tried */
#define FEW             14
#define TREE_ROWS_TRIED 32

/* ---- the cost of a cycle, computed anew ---------------------------------- */

struct price {
	double flash, ahead, before, token, begin, draft, other, row[FEW + 2];
};

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double takes(
	const struct price *p, double gain, uint32_t looked, uint32_t rows)
{
	double host = p->token * gain + p->begin + looked * p->draft;
	double read = p->flash;

	if (read > 0)
		read += larger(0, host + p->before * p->row[rows] - p->ahead);
	return p->other + larger(read, host + p->row[rows]);
}

/* Random costs. The cost of rows rises with each row or, if `steps` is set, in
 * steps. */
static struct price random_price(bool steps)
{
	struct price p = { .flash = draw(3) ? 300 * unit() : 0,
		.ahead = 100 * unit(),
		.before = draw(2) ? unit() : 0,
		.token = draw(2) ? 10 * unit() : 0,
		.begin = 50 * unit(),
		.other = draw(2) ? 40 * unit() : 0,
		.draft = draw(4) ? 20 * unit() : 0 };
	double rise = 10 * unit();

	p.row[1] = 1 + 100 * unit();
	for (uint32_t n = 2; n <= FEW + 1; n++) {
		p.row[n] = p.row[n - 1] + rise;
		rise = steps ? (draw(3) ? 0 : 60 * unit()) : rise + 3 * unit();
	}
	return p;
}

/* Trees have at most PASS_KNOTS rows, so that the cost of each number of rows
 * can be set. */
#define ROWS PASS_KNOTS

/* Set the time to expand one node. Several nodes at once take that time for
 * each node. */
static void set_expansion_time(struct pass_cost *c, double node)
{
	for (unsigned i = 0; i < PASS_LOOKS; i++) {
		c->look[i] = node * (1U << i);
		c->n_look[i] = 1;
	}
}

static struct pass_cost cost_of(const struct price *p)
{
	struct pass_cost c = { .read = p->flash,
		.ahead = p->ahead,
		.before = p->before,
		.token = p->token,
		.begin = p->begin,
		.other = p->other };
	uint32_t row[ROWS];

	set_expansion_time(&c, p->draft);
	for (uint32_t i = 0; i < ROWS; i++)
		row[i] = i + 1;
	pass_cost_set(&c, row, p->row + 1, ROWS);
	return c;
}

/* ---- the estimated probabilities, computed anew ----------------------- */

static void estimate(const struct gain_rule *rule, const struct candidate *c,
	uint32_t n, double *p)
{
	double mass = 0, sum = 0, hit;

	for (uint32_t i = 0; i < n; i++) {
		mass += (double)c[i].q;
		sum += pow((double)c[i].q, rule->draft.draft);
	}
	hit = mass * larger(rule->hit / rule->mass, rule->rho_min);
	for (uint32_t i = 0; i < n; i++)
		p[i] = pow((double)c[i].q, rule->draft.draft) / sum *
			(hit < 1 ? hit : 1);
}

/* Expected number of tokens that a tree emits. */
static double gain_of(const struct gain_rule *rule, const struct tree *t)
{
	double reach[TREE_ROWS_TRIED] = { 1 }, sum = 0;

	for (uint32_t u = 0; u < t->n; u++) {
		double p[TREE_CANDIDATES];
		const struct candidate *c = t->candidate + u * t->k;

		sum += reach[u];
		estimate(rule, c, t->n_candidates[u], p);
		for (uint32_t i = 0; i < t->n_children[u]; i++)
			reach[tree_child(t, u, c[i].token)] = reach[u] * p[i];
	}
	return sum;
}

/* ---- all trees ----------------------------------------------------------- */

struct all {
	uint32_t n;
	double reach[FEW];
	int32_t parent[FEW]; /* -1: the parent is the root */
};

/* Whether the builder expanded the node with this path. */
static bool was_expanded(const struct hash_drafter *h, uint64_t path)
{
	for (uint32_t i = 1; i <= h->nodes; i++)
		if (h->path[i] == path)
			return true;
	return false;
}

/* List all nodes down to a depth or, if `known` is set, only those children
 * that belong to nodes that the builder expanded. */
static void list_all(struct all *a, const struct hash_drafter *h, bool known,
	uint64_t path, int32_t parent, double reach,
	const struct gain_rule *rule, uint32_t depth)
{
	struct candidate c[TREE_CANDIDATES];
	double p[TREE_CANDIDATES];
	uint32_t n = hash_candidates(h, path, c);

	if (!depth || (known && !was_expanded(h, path)))
		return;
	estimate(rule, c, n, p);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = a->n++;

		assert_true(at < FEW);
		a->reach[at] = reach * p[i];
		a->parent[at] = parent;
		list_all(a, h, known, hash_child(path, c[i].token), (int32_t)at,
			a->reach[at], rule, depth - 1);
	}
}

/* Number of inner nodes of a tree, not counting the root. */
static uint32_t inner(const struct all *a, uint32_t set)
{
	uint32_t with = 0, n = 0;

	for (uint32_t u = 0; u < a->n; u++)
		if (set >> u & 1 && a->parent[u] >= 0)
			with |= 1U << a->parent[u];
	for (; with; with &= with - 1)
		n++;
	return n;
}

/* The best rate (gain / latency) of all connected trees. The latency includes
 * `looked` expansions or, if `looked` is negative, the expansions that each
 * tree needs. */
static double best_rate(
	const struct all *a, uint32_t rows, const struct price *p, int looked)
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
		if (!hangs || n > rows)
			continue;
		best = larger(best,
			gain /
				takes(p, gain,
					looked < 0 ? inner(a, set)
						   : (uint32_t)looked,
					n));
	}
	return best;
}

static const struct {
	uint32_t k, depth;
} few[] = { { 1, 7 }, { 7, 1 }, { 2, 2 }, { 2, 3 }, { 3, 2 } };

static struct gain_rule random_rule(void)
{
	struct gain_rule p;

	gain_rule_init(&p);
	p.best_prefix = true;
	if (draw(2)) {
		p.hit = 0.2 + unit();
		p.draft.draft = 0.5 + 2 * unit();
	}
	return p;
}

static void build(struct hash_drafter *h, uint32_t batch, struct tree *t,
	const struct build_limits *l, const struct pass_cost *c,
	struct gain_rule *p)
{
	const struct drafter d = hash_drafter(h, batch);
	struct build_limits limits = *l;
	struct build b = { 0 };
	struct err e = { 0 };

	limits.batch = limits.most = batch;
	hash_begin(h, t);
	build_lever_begin(&b, t, &limits, c, p);
	assert_ok(build_run(&b, &d, &e), &e);
	hash_check_tree(h, t, l->rows, l->depth);
}

/* No tree of the expanded nodes has a better rate than the builder's tree, and
 * the gain and latency that the builder reports are those of its tree. */
static void test_best_of_the_expanded(void **state)
{
	uint32_t looked = 0;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t i = draw(5);
		struct hash_drafter h = { .seed = seed + drawn,
			.k = few[i].k,
			.sharp = draw(4),
			.bare = draw(3) ? 0 : 5 };
		const struct build_limits l = { 1 + draw(ROWS), few[i].depth };
		struct price price = random_price(draw(2));
		struct pass_cost c = cost_of(&price);
		struct tree *t = open_tree(2 * l.rows, h.k);
		struct gain_rule p = random_rule();
		struct all a = { 0 };

		build(&h, 1 + draw(4), t, &l, &c, &p);
		list_all(&a, &h, true, hash_root(&h), -1, 1, &p, l.depth);
		assert_close(p.gain, gain_of(&p, t), 1e-9, "gain");
		assert_close(p.latency,
			takes(&price, p.gain, h.nodes - 1, t->n), 1e-9,
			"latency");
		assert_close(p.gain / p.latency,
			best_rate(&a, l.rows, &price, (int)h.nodes - 1),
			1e-9 * p.gain / p.latency, "rate");
		looked += h.nodes - 1;
		tree_close(t);
	}
	assert_true(looked > ROUNDS / 2);
}

/* The candidates have the same probabilities after all nodes, so the builder
 * can predict every further node. If the cost of rows is convex, no tree of all
 * nodes may have a rate that is much better than that of the builder's tree; if
 * the cost rises in steps, a tree may be a little better. The builder's rate
 * must be at least `share` of the best rate. */
static void check_best_of_all(bool steps, double share)
{
	double worst = 1;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t i = draw(5);
		struct hash_drafter h = { .seed = seed + drawn,
			.k = few[i].k,
			.mass = 0.3 + 0.7 * unit() };
		const struct build_limits l = { 2 + draw(ROWS - 1),
			few[i].depth };
		struct price price = random_price(steps);
		struct pass_cost c = cost_of(&price);
		struct tree *t = open_tree(l.rows, h.k);
		struct gain_rule p = random_rule();
		struct all a = { 0 };

		/* the first build updates the builder's averages */
		build(&h, 1, t, &l, &c, &p);
		for (uint32_t k = 0; k < h.k; k++)
			p.expect[k] =
				fmin(1,
					larger(p.hit / p.mass, p.rho_min) *
						h.mass) /
				h.k;
		build(&h, 1, t, &l, &c, &p);
		list_all(&a, &h, false, hash_root(&h), -1, 1, &p, l.depth);
		worst = fmin(worst,
			p.gain / p.latency / best_rate(&a, l.rows, &price, -1));
		tree_close(t);
	}
	print_message("%s: at least %.4f of the best rate\n",
		steps ? "steps" : "rising", worst);
	assert_true(worst >= share);
}

static void test_best_of_all_trees(void **state)
{
	seed = harness_seed();
	check_best_of_all(false, 0.98);
	check_best_of_all(true, 0.9);
}

/* ---- steps in the cost, and no draft at all ---------------------------- */

/* The second row costs more than it gains, but eight rows together gain more
 * than they cost. */
static void test_crosses_a_step(void **state)
{
	const uint32_t row[] = { 1, 2, 32 };
	const struct build_limits l = { 32, 31 };
	struct tree *t = open_tree(l.rows, 1);
	struct hash_drafter h = { .seed = 3, .k = 1, .mass = 0.95 };
	struct pass_cost c = { 0 };
	struct gain_rule p;

	pass_cost_set(&c, row, (const double[]){ 100, 340, 340 + 30 * 20 }, 3);
	gain_rule_init(&p);
	p.best_prefix = true;
	set_expansion_time(&c, 1);
	for (int i = 0; i < 2; i++)
		build(&h, 1, t, &l, &c, &p);
	/* The chain has the best length: one more row would gain less than its
	 * cost times the rate (gain / latency). */
	assert_true(t->n > 8);
	assert_true(p.gain / p.latency > 1.6 / 100);
	assert_true(pow(0.95, t->n) * p.latency <= 21 * p.gain * 1.001);
	assert_true(pow(0.95, t->n - 1) * p.latency >= 21 * p.gain * 0.999);
	/* With a probability of only 0.7 for each drafted token, no chain gains
	 * as much as it costs. */
	h.mass = 0.7;
	gain_rule_init(&p);
	p.best_prefix = true;
	for (int i = 0; i < 2; i++)
		build(&h, 1, t, &l, &c, &p);
	assert_int_equal(t->n, 1);
	tree_close(t);
}

/* ---- expansions ---------------------------------------------------------- */

static const uint32_t two[] = { 1, 256 };

/* While flash reads ahead, drafting costs no time, so drafting continues for as
 * long as flash reads. If drafting one token takes ten times as long as the
 * reads of a pass, nothing is drafted. */
static void test_drafts_while_flash_reads(void **state)
{
	const struct build_limits l = { 256, 64 };
	struct tree *t = open_tree(l.rows, 1);

	for (uint32_t ahead = 0; ahead <= 40; ahead += 10) {
		struct hash_drafter h = { .seed = 3, .k = 1, .mass = 0.999 };
		struct pass_cost c = { .read = 1000, .ahead = 10 * ahead };
		struct gain_rule p;

		pass_cost_set(&c, two, (const double[]){ 1, 1 }, 2);
		gain_rule_init(&p);
		p.best_prefix = true;
		set_expansion_time(&c, 10);
		build(&h, 1, t, &l, &c, &p);
		assert_in_range(h.nodes - 1, ahead, 63);
		set_expansion_time(&c, 10000);
		build(&h, 1, t, &l, &c, &p);
		assert_int_equal(h.nodes - 1, 0);
		set_expansion_time(&c, 10 + ahead * 10);
		/* a second token is not worth delaying the reads of flash */
		h.mass = 0.05;
		set_expansion_time(&c, 60);
		build(&h, 1, t, &l, &c, &p);
		build(&h, 1, t, &l, &c, &p);
		assert_true((h.nodes - 1) * 60 <= 10 * ahead);
	}
	tree_close(t);
}

/* If expanding several nodes at once takes as long as expanding one, they are
 * expanded together, up to the drafter's limit. If the time is proportional to
 * the nodes, they are expanded one by one, because later choices then use more
 * information. If they are expanded together, the latency must count the time
 * of each call only once. */
static void test_expands_several_at_once(void **state)
{
	const struct build_limits l = { 256, 12 };
	uint32_t one_by_one = 0, together = 0;

	seed = harness_seed();
	for (int round = 0; round < 20; round++) {
		struct hash_drafter h = {
			.seed = seed + drawn, .k = 8, .sharp = 1 + draw(6)
		};
		struct tree *t = open_tree(2 * l.rows, h.k);
		struct pass_cost c = { .read = 1000 };
		struct gain_rule first, p;

		pass_cost_set(&c, two, (const double[]){ 10, 500 }, 2);
		gain_rule_init(&first);
		first.best_prefix = true;
		set_expansion_time(&c, 5);
		build(&h, 1, t, &l, &c, &first);
		p = first;
		build(&h, 8, t, &l, &c, &p);
		assert_int_equal(h.calls, h.nodes - 1);
		one_by_one += h.calls;
		for (unsigned i = 0; i < PASS_LOOKS; i++)
			c.look[i] = 5;
		p = first;
		build(&h, 8, t, &l, &c, &p);
		together += h.calls;
		assert_in_range(h.largest, 2, 8);
		assert_close(p.latency,
			pass_cost_cycle(&c, p.gain, 5. * h.calls,
				pass_cost_rows(&c, t->n)),
			1e-9, "latency");
		tree_close(t);
	}
	assert_true(together < one_by_one);
}

/* The nodes of a batch, except the first, may be dropped from the list of nodes
 * that can be added next, but they still occupy entries of the tree. These
 * nodes must therefore fit into the entries that the tree has beyond l.rows. */
static void test_room_for_batches(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < 300; round++) {
		struct hash_drafter h = { .seed = seed + drawn,
			.k = 2 + draw(7),
			.sharp = draw(12) };
		const struct build_limits l = { 2 + draw(60), 2 + draw(30) };
		struct tree *t = open_tree(l.rows + draw(l.rows), h.k);
		struct pass_cost c = { .read = 1000 };
		struct gain_rule p;

		pass_cost_set(&c, two, (const double[]){ 10, 20 }, 2);
		for (unsigned i = 0; i < PASS_LOOKS; i++)
			c.look[i] = 1;
		gain_rule_init(&p);
		p.best_prefix = true;
		build(&h, 2 + draw(60), t, &l, &c, &p);
		assert_in_range(h.largest, 0, 1 + t->capacity - l.rows);
		tree_close(t);
	}
}

/* If no cost of rows is known, the tree has the likeliest nodes up to its
 * limits. */
static void test_nothing_known(void **state)
{
	const struct build_limits l = { 20, 6 };

	seed = harness_seed();
	for (uint32_t i = 0; i < 20; i++) {
		struct hash_drafter h = {
			.seed = seed + i, .k = 4, .sharp = 1 + i % 4
		};
		struct tree *t = open_tree(2 * l.rows, h.k), *opt;
		const struct pass_cost c = { 0 };
		const struct drafter d = hash_drafter(&h, 1);
		struct build b = { 0 };
		struct err e = { 0 };
		struct gain_rule p;
		double sum = 0, want = 0;

		gain_rule_init(&p);
		build(&h, 1 + i % 3, t, &l, &c, &p);
		assert_int_equal(t->n, 20);
		assert_close(p.latency, 0, 0, "latency");
		for (uint32_t u = 0; u < t->n; u++)
			sum += t->path[u];
		opt = open_tree(400, h.k);
		hash_begin(&h, opt);
		build_opt_begin(&b, opt, &l, -1);
		assert_ok(build_run(&b, &d, &e), &e);
		for (uint32_t u = 0; u < opt->n; u++)
			want += opt->path[u];
		assert_close(sum, want, 1e-9, "expected");
		tree_close(opt);
		tree_close(t);
	}
}

/* The stop rule of the Lever paper ends growth at a step in cost, so the tree
 * that it gives is never better than the tree without the rule. */
static void test_stop_rule(void **state)
{
	const uint32_t row[] = { 1, 8, 9, 16, 17, 24, 25, 32 };
	const struct build_limits l = { 32, 1000 };
	uint32_t better = 0;

	seed = harness_seed();
	for (int round = 0; round < 40; round++) {
		struct hash_drafter h = {
			.seed = seed + drawn, .k = 8, .sharp = 1 + draw(6)
		};
		struct tree *t = open_tree(l.rows, h.k);
		struct gain_rule p = random_rule(), stop = p;
		struct pass_cost c = { 0 };

		pass_cost_set(&c, row,
			(const double[]){ 1040, 1040, 1130, 1130, 1220, 1220,
				1310, 1310 },
			8);
		stop.best_prefix = false;
		build(&h, 1, t, &l, &c, &p);
		build(&h, 1, t, &l, &c, &stop);
		assert_true(t->n % 8 == 0);
		assert_true(
			p.gain / p.latency >= stop.gain / stop.latency - 1e-12);
		better += p.gain / p.latency > stop.gain / stop.latency * 1.001;
		tree_close(t);
	}
	assert_true(better > 4);
}

/* ---- ends ---------------------------------------------------------------- */

static void test_ends(void **state)
{
	static const struct build_limits limits[] = { { 1, 5 }, { 9, 0 } };
	const struct build_limits l = { 30, 6, .batch = 3, .most = 3 };
	struct pass_cost c = { 0 };

	for (uint32_t i = 0; i < 60; i++) {
		struct hash_drafter h = {
			.seed = i, .k = 3, .sharp = 1, .room = 1 + i / 3
		};
		struct tree *t = open_tree(50, h.k);
		struct build b = { 0 };
		struct err e = { 0 };
		struct drafter d;
		struct gain_rule p;

		if (i == 30)
			pass_cost_begin(&c, 10, 100);
		gain_rule_init(&p);
		p.best_prefix = i % 2;
		build(&h, 1 + i % 3 * 3, t, &l, &c, &p);
		assert_true(t->n > 1);
		assert_int_equal(p.expanded, h.nodes);
		/* The drafter has no expansion left, not even for the root, so
		 * the tree has only the root. */
		tree_reset(t, 7);
		h.room = 1;
		d = hash_drafter(&h, 4);
		build_lever_begin(&b, t, &l, &c, &p);
		assert_ok(build_run(&b, &d, &e), &e);
		assert_int_equal(t->n, 1);
		h = (struct hash_drafter){
			.seed = i, .k = 3, .fail = 1 + i % 4
		};
		d = hash_drafter(&h, 3);
		hash_begin(&h, t);
		build_lever_begin(&b, t, &l, &(struct pass_cost){ 0 }, &p);
		assert_int_equal(build_run(&b, &d, &e), -EIO);
		hash_check_tree(&h, t, t->capacity, l.depth);
		h.fail = 0;
		build(&h, 4, t, &limits[i % 2], &c, &p);
		assert_int_equal(t->n, 1);
		assert_int_equal(h.calls, 0);
		tree_close(t);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_best_of_the_expanded),
	cmocka_unit_test(test_best_of_all_trees),
	cmocka_unit_test(test_crosses_a_step),
	cmocka_unit_test(test_drafts_while_flash_reads),
	cmocka_unit_test(test_expands_several_at_once),
	cmocka_unit_test(test_room_for_batches),
	cmocka_unit_test(test_nothing_known),
	cmocka_unit_test(test_stop_rule),
	cmocka_unit_test(test_ends),
};

TEST_FILE(tests)
