/*
 * Pruning compared with its definition, which the test computes edge by edge
 * over the whole tree, on random trees. Every result must also have certain
 * properties: ancestors and the backbone are kept, weaker settings keep more
 * nodes, and enough nodes are added back.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/tree/prune.h"
#include "host/tree/tree.h"
#include "tests/harness.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 160
#define ROUNDS    400

/* A scripted predictor, which scores each token after each node. */
struct predictor {
	const struct tree *tree;
	uint64_t seed, round;
	double spread; /* spread of the scores */
	bool all_alike, not_a_number;
	unsigned calls;
	/* Number of tokens that were scored after each node. */
	uint32_t scored[MAX_NODES];
};

static float score_of(const struct predictor *p, uint32_t node, int32_t token)
{
	if (p->not_a_number && token % 5 == 0)
		return NAN;
	return p->all_alike
		? 1
		: (float)(p->spread *
			  rng_uniform(p->seed, p->round,
				  ((uint64_t)node << 32) + (uint32_t)token));
}

static bool is_candidate(const struct tree *t, uint32_t node, int32_t token)
{
	for (uint32_t i = 0; i < t->n_candidates[node]; i++)
		if (t->candidate[node * t->k + i].token == token)
			return true;
	return false;
}

static bool is_child(const struct tree *t, uint32_t node, int32_t token)
{
	for (uint32_t v = 1; v < t->n; v++)
		if (t->parent[v] == (int32_t)node && t->token[v] == token)
			return true;
	return false;
}

static void score(
	void *arg, uint32_t node, const int32_t *token, uint32_t n, float *out)
{
	struct predictor *p = arg;

	assert_true(n > 0);
	assert_true(node < p->tree->n);
	p->calls++;
	p->scored[node] += n;
	for (uint32_t i = 0; i < n; i++) {
		if (!is_candidate(p->tree, node, token[i]) &&
			!is_child(p->tree, node, token[i]))
			fail_msg("token %d after %u scored", token[i], node);
		out[i] = score_of(p, node, token[i]);
	}
}

/* ---- trees --------------------------------------------------------------- */

static struct tree *tree_of(uint32_t capacity, uint32_t k)
{
	struct tree *t;
	struct err e = { 0 };

	assert_ok(tree_open(&t, capacity, k, &e), &e);
	tree_reset(t, 7);
	return t;
}

/* Give node u n candidates: different tokens in descending order of q. */
static void expand(struct tree *t, uint32_t u, uint32_t n)
{
	t->n_candidates[u] = n;
	for (uint32_t i = 0; i < n; i++)
		t->candidate[u * t->k + i] =
			(struct candidate){ (int32_t)(u * 100 + i),
				1 / (float)(i + 2) };
}

static uint32_t add(struct tree *t, uint32_t parent, uint32_t i)
{
	return tree_add(t, parent, t->candidate[parent * t->k + i]);
}

static uint32_t draw(uint64_t seed, uint64_t *at, uint32_t below)
{
	return (uint32_t)(rng_uniform(seed, 1u << 20, (*at)++) * below);
}

/*
 * A random tree. Some children are not among their parent's candidates, and
 * about one node in twenty has no candidates.
 */
static struct tree *random_tree(uint64_t seed, uint64_t *at)
{
	uint32_t n = 1 + draw(seed, at, draw(seed, at, 3) ? 40 : MAX_NODES);
	uint32_t k = 1 + draw(seed, at, TREE_CANDIDATES);
	uint32_t reach = 1 + draw(seed, at, 30);
	struct tree *t = tree_of(n, k);

	expand(t, 0, k);
	while (t->n < n) {
		uint32_t back = draw(seed, at, t->n < reach ? t->n : reach);
		uint32_t u = t->n - 1 - back, i = draw(seed, at, k), v;
		struct candidate c = t->candidate[u * k + i];

		if (!draw(seed, at, 10) || i >= t->n_candidates[u] ||
			is_child(t, u, c.token))
			c = (struct candidate){ (int32_t)(100000 + t->n),
				.01f };
		v = tree_add(t, u, c);
		expand(t, v, draw(seed, at, 20) ? k : 0);
	}
	return t;
}

/* ---- the definition ------------------------------------------------------ */

struct reference {
	double sigma[MAX_NODES];
	bool stays[MAX_NODES], keep[MAX_NODES];
	bool backbone[MAX_NODES];
	/* removed by the threshold, even if added back later */
	bool cut[MAX_NODES];
	double merit[MAX_NODES];
	uint32_t back;
	enum prune_lack lack;
	bool close; /* true if rounding could change a comparison */
};

static double naive_sigma(
	const struct predictor *p, const struct prune_opts *o, uint32_t v)
{
	const struct tree *t = p->tree;
	uint32_t u = (uint32_t)t->parent[v];
	double own = score_of(p, u, t->token[v]), sum = 0;

	for (uint32_t w = 1; w < t->n; w++)
		if (t->parent[w] == (int32_t)u)
			sum += exp((score_of(p, u, t->token[w]) - own) /
				(double)o->temperature);
	for (uint32_t i = 0; i < t->n_candidates[u] && o->shadow; i++) {
		int32_t token = t->candidate[u * t->k + i].token;

		if (!is_child(t, u, token))
			sum += exp((score_of(p, u, token) - own) /
				(double)o->temperature);
	}
	return 1 / sum;
}

/* Whether v is among the b best children of its parent. */
static bool among_best(
	const struct reference *x, const struct tree *t, uint32_t v, uint32_t b)
{
	uint32_t before = 0;

	for (uint32_t w = 1; w < t->n; w++)
		if (t->parent[w] == t->parent[v] && w != v)
			before += x->sigma[w] > x->sigma[v] ||
				(x->sigma[w] == x->sigma[v] && w < v);
	return before < b;
}

static void mark_backbone(struct reference *x, const struct tree *t)
{
	uint32_t at = 0;

	memset(x->backbone, 0, sizeof(x->backbone));
	for (;;) {
		uint32_t best = 0;

		x->backbone[at] = true;
		for (uint32_t v = 1; v < t->n; v++)
			if (t->parent[v] == (int32_t)at &&
				(!best || x->sigma[v] > x->sigma[best]))
				best = v;
		if (!best)
			return;
		at = best;
	}
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-6 * fmax(a, b);
}

static void mark_edges(
	struct reference *x, const struct tree *t, const struct prune_opts *o)
{
	for (uint32_t v = 1; v < t->n; v++) {
		uint32_t u = (uint32_t)t->parent[v];
		double s = x->sigma[v];

		x->close |= near(s, (double)o->theta) ||
			near(s, (double)o->breadth_theta);
		for (uint32_t w = 1; w < v; w++)
			x->close |= t->parent[w] == (int32_t)u &&
				near(s, x->sigma[w]);
		x->stays[v] = s >= (double)o->theta;
		if (!o->safeguards)
			continue;
		x->stays[v] |= x->backbone[v];
		x->stays[v] |= t->depth[u] <= o->breadth_depth &&
			s >= (double)o->breadth_theta &&
			among_best(x, t, v, o->breadth);
	}
}

/* Keep the nodes of which no edge on the path to the root is pruned. */
static void mark_kept(struct reference *x, const struct tree *t)
{
	for (uint32_t v = 0; v < t->n; v++) {
		x->keep[v] = true;
		for (uint32_t w = v; w; w = (uint32_t)t->parent[w])
			x->keep[v] &= x->stays[w];
		x->cut[v] = !x->keep[v];
	}
}

/* The merit of an edge is the draft's probability or, if the predictor scored
 * it, the geometric mean of this probability and the predictor's. The merit of
 * a node is the product over all edges to the root. */
static void mark_merits(struct reference *x, const struct tree *t)
{
	for (uint32_t v = 0; v < t->n; v++) {
		x->merit[v] = 1;
		for (uint32_t w = v; w; w = (uint32_t)t->parent[w]) {
			double q = (double)t->q[w];

			x->merit[v] *= x->cut[t->parent[w]]
				? q
				: sqrt(q * x->sigma[w]);
		}
	}
}

static enum prune_lack naive_lack(
	struct reference *x, const struct tree *t, const struct prune_opts *o)
{
	uint32_t inner[MAX_NODES] = { 0 }, rows = 0, leaves = 0;
	double kept = 0, all = 0;

	for (uint32_t v = 0; v < t->n; v++) {
		rows += x->keep[v];
		if (x->keep[v] && v)
			inner[t->parent[v]]++;
		all += v ? x->merit[v] : 0;
		kept += v && x->keep[v] ? x->merit[v] : 0;
	}
	for (uint32_t v = 0; v < t->n; v++)
		leaves += x->keep[v] && !inner[v];
	if (rows < o->min_rows)
		return PRUNE_LACKS_ROWS;
	if (leaves < o->min_leaves)
		return PRUNE_LACKS_LEAVES;
	x->close |= near(kept, (double)o->retain * all);
	return kept < (double)o->retain * all ? PRUNE_LACKS_TOKENS
					      : PRUNE_LACKS_NOTHING;
}

/* Add nodes back one by one, in order of merit, until the tree is large enough
 * or has all nodes. */
static void bring_back(
	struct reference *x, const struct tree *t, const struct prune_opts *o)
{
	x->lack = naive_lack(x, t, o);
	while (naive_lack(x, t, o)) {
		uint32_t best = 0;

		for (uint32_t v = 1; v < t->n; v++) {
			if (x->keep[v])
				continue;
			x->close |= best && near(x->merit[v], x->merit[best]);
			if (!best || x->merit[v] > x->merit[best])
				best = v;
		}
		if (!best)
			return;
		x->keep[best] = true;
		x->back++;
	}
}

static void reference_run(struct reference *x, const struct predictor *p,
	const struct prune_opts *o)
{
	const struct tree *t = p->tree;

	memset(x, 0, sizeof(*x));
	x->sigma[0] = 1;
	for (uint32_t v = 1; v < t->n; v++)
		x->sigma[v] = naive_sigma(p, o, v);
	mark_backbone(x, t);
	mark_edges(x, t, o);
	mark_kept(x, t);
	mark_merits(x, t);
	if (o->safeguards)
		bring_back(x, t, o);
}

/* ---- running ------------------------------------------------------------- */

struct result {
	uint32_t n, keep[MAX_NODES];
	bool kept[MAX_NODES];
	float sigma[MAX_NODES];
	double merit[MAX_NODES];
	struct prune_result result;
};

static void prune(
	struct result *r, struct predictor *p, const struct prune_opts *o)
{
	const struct tree *t = p->tree;

	memset(p->scored, 0, sizeof(p->scored));
	p->calls = 0;
	memset(r, 0, sizeof(*r));
	memset(r->keep, 0xff, sizeof(r->keep));
	for (uint32_t v = 0; v < t->n; v++)
		r->sigma[v] = NAN;
	r->result = (struct prune_result){
		.keep = r->keep, .sigma = r->sigma, .merit = r->merit
	};
	prune_tree(t, o, score, p, &r->result);
	r->n = r->result.n;
	assert_in_range(r->n, 1, t->n);
	assert_int_equal(r->keep[0], 0);
	assert_true(r->sigma[0] == 1);
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t v = r->keep[i];

		assert_true(v < t->n);
		if (i)
			assert_true(v > r->keep[i - 1]);
		if (v)
			assert_true(r->kept[t->parent[v]]);
		r->kept[v] = true;
	}
}

static void compare(const struct result *r, const struct reference *x,
	const struct predictor *p, const char *what)
{
	const struct tree *t = p->tree;

	for (uint32_t v = 0; v < t->n; v++) {
		bool want = x->keep[v];
		bool scored = !v || !x->cut[t->parent[v]];

		if (r->kept[v] != want)
			fail_msg("%s, round %" PRIu64 ": node %u of %u %s, "
				 "sigma %g",
				what, p->round, v, t->n,
				want ? "is gone" : "stays", x->sigma[v]);
		assert_close((double)r->sigma[v], scored ? x->sigma[v] : 0,
			1e-6, "sigma");
	}
	assert_int_equal(r->result.back, x->back);
	assert_int_equal(r->result.lack, x->lack);
}

/* No node is scored twice, and no descendant of a pruned node is scored. */
static void check_scored(const struct result *r, const struct reference *x,
	const struct predictor *p, const struct prune_opts *o)
{
	const struct tree *t = p->tree;
	uint64_t all = 0;

	for (uint32_t u = 0; u < t->n; u++) {
		uint32_t want = t->n_children[u];

		for (uint32_t i = 0; i < t->n_candidates[u] && o->shadow; i++)
			want += !is_child(
				t, u, t->candidate[u * t->k + i].token);
		if (x->cut[u] || !t->n_children[u])
			want = 0;
		assert_int_equal(p->scored[u], want);
		all += want;
	}
	assert_int_equal(r->result.scored, all);
}

static struct prune_opts random_opts(uint64_t seed, uint64_t *at, uint32_t k)
{
	struct prune_opts o = prune_defaults(k);

	o.theta *= (float)draw(seed, at, 6) / 2;
	o.temperature = .5f + (float)draw(seed, at, 4) / 2;
	o.breadth = draw(seed, at, 4);
	o.breadth_depth = draw(seed, at, 4);
	o.breadth_theta = o.theta / (float)(1 + draw(seed, at, 3));
	o.min_rows = draw(seed, at, 6);
	o.min_leaves = draw(seed, at, 4);
	o.retain = (float)draw(seed, at, 4) / 4;
	o.shadow = draw(seed, at, 4) != 0;
	o.safeguards = draw(seed, at, 4) != 0;
	return o;
}

static void it_is_the_definition(void **unused)
{
	uint64_t seed = harness_seed(), at = 0;
	unsigned pruned = 0, compared = 0, lacking[4] = { 0 };

	(void)unused;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		struct tree *t = random_tree(seed, &at);
		struct prune_opts o = random_opts(seed, &at, t->k);
		struct predictor p = { .tree = t,
			.seed = seed,
			.round = round,
			.spread = 1 + draw(seed, &at, 12) };
		struct reference x;
		struct result r;

		reference_run(&x, &p, &o);
		prune(&r, &p, &o);
		if (!x.close) {
			compare(&r, &x, &p, "random");
			check_scored(&r, &x, &p, &o);
			compared++;
			pruned += r.n < t->n;
			lacking[x.lack] += x.back > 0;
		}
		tree_close(t);
	}
	/* Each of these cases must have occurred. */
	assert_true(compared > ROUNDS * 9 / 10);
	assert_true(pruned > ROUNDS / 4);
	for (int i = PRUNE_LACKS_ROWS; i <= PRUNE_LACKS_TOKENS; i++)
		assert_true(lacking[i] > ROUNDS / 100);
}

static bool within(const struct result *a, const struct result *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (!b->kept[a->keep[i]])
			return false;
	return true;
}

/* Set all minimums so that no node is added back. */
static void require_nothing(struct prune_opts *o)
{
	o->min_rows = 1;
	o->min_leaves = 0;
	o->retain = 0;
}

/* If one setting is changed, the kept tree must grow or shrink accordingly. */
static void less_pruning_keeps_more(void **unused)
{
	uint64_t seed = harness_seed() + 1, at = 0;

	(void)unused;
	for (uint64_t round = 0; round < ROUNDS / 4; round++) {
		struct tree *t = random_tree(seed, &at);
		struct predictor p = {
			.tree = t, .seed = seed, .round = round, .spread = 6
		};
		struct prune_opts o = prune_defaults(t->k), other;
		struct result r, changed;

		require_nothing(&o);
		prune(&r, &p, &o);
		other = o, other.theta *= 3;
		prune(&changed, &p, &other);
		assert_true(within(&changed, &r));
		other = o, other.breadth = 0;
		prune(&changed, &p, &other);
		assert_true(within(&changed, &r));
		other = o, other.breadth_depth = 0;
		prune(&changed, &p, &other);
		assert_true(within(&changed, &r));
		other = o, other.safeguards = false;
		prune(&changed, &p, &other);
		assert_true(within(&changed, &r));
		other = o, other.shadow = false;
		prune(&changed, &p, &other);
		assert_true(within(&r, &changed));
		other = o, other.theta = other.breadth_theta = 0;
		prune(&changed, &p, &other);
		assert_int_equal(changed.n, t->n);
		tree_close(t);
	}
}

/* With theta 1, an edge is kept only if it belongs to the backbone or to the
 * minimum breadth, or if it is the only edge of its parent. */
static void theta_one_leaves_backbone_and_breadth(void **unused)
{
	struct tree *t = tree_of(40, 4);
	struct predictor p = { .tree = t, .seed = harness_seed(), .spread = 3 };
	struct prune_opts o = prune_defaults(4);
	struct reference x;
	struct result r;

	(void)unused;
	for (uint32_t u = 0; t->n < 40; u++) {
		expand(t, u, 4);
		for (uint32_t i = 0; i < 3; i++)
			add(t, u, i);
	}
	o.theta = 1;
	o.breadth_theta = 0;
	o.breadth = 2;
	o.breadth_depth = 0;
	require_nothing(&o);
	reference_run(&x, &p, &o);
	prune(&r, &p, &o);
	/* From a complete tree of three levels, the backbone and one more node
	 * are kept. */
	assert_int_equal(r.n, 5);
	for (uint32_t i = 0; i < r.n; i++)
		assert_true(x.backbone[r.keep[i]] || t->parent[r.keep[i]] == 0);
	o.safeguards = false;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 1);
	tree_close(t);
}

/* ---- small and unusual trees --------------------------------------------- */

static void a_root_alone_is_not_scored(void **unused)
{
	struct tree *t = tree_of(1, 8);
	struct predictor p = { .tree = t };
	struct prune_opts o = prune_defaults(8);
	struct result r;

	(void)unused;
	expand(t, 0, 8);
	prune(&r, &p, &o);
	assert_int_equal(r.n, 1);
	o.safeguards = false;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 1);
	assert_int_equal(p.calls, 0);
	tree_close(t);
}

/* A chain is its own backbone. Without the safeguards an only child cannot be
 * pruned, unless there are shadow tokens to compare it with. */
static void chains_are_pruned_only_without_safeguards(void **unused)
{
	struct tree *t = tree_of(8, 4);
	struct predictor p = { .tree = t, .all_alike = true };
	struct prune_opts o = prune_defaults(4);
	struct result r;

	(void)unused;
	for (uint32_t u = 0; u < 7; u++) {
		expand(t, u, 4);
		add(t, u, u % 4);
	}
	o.theta = .3f;
	require_nothing(&o);
	prune(&r, &p, &o);
	assert_int_equal(r.n, 8);
	assert_true(r.sigma[3] == .25f);
	o.safeguards = false;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 1);
	o.shadow = false;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 8);
	assert_true(r.sigma[3] == 1);
	tree_close(t);
}

/* Of nodes with equal merit, the one that was added first belongs to the
 * backbone and is added back first. */
static void equals_keep_their_order(void **unused)
{
	struct tree *t = tree_of(9, 8);
	struct predictor p = { .tree = t, .all_alike = true };
	struct prune_opts o = prune_defaults(8);
	struct result r;

	(void)unused;
	expand(t, 0, 8);
	for (uint32_t i = 0; i < 8; i++)
		add(t, 0, 7 - i);
	o.theta = .5f;
	o.breadth_theta = .1f;
	require_nothing(&o);
	prune(&r, &p, &o);
	assert_int_equal(r.n, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(r.keep[i], i);
	o.breadth = 0;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 2);
	o.min_leaves = 2; /* one leaf is not enough */
	prune(&r, &p, &o);
	assert_int_equal(r.n, 3);
	assert_int_equal(r.result.lack, PRUNE_LACKS_LEAVES);
	o.min_rows = 4;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 4);
	assert_int_equal(r.result.back, 2);
	assert_int_equal(r.result.lack, PRUNE_LACKS_ROWS);
	/* The draft's best node is the one that was added to the tree last. */
	assert_true(r.kept[8]);
	o.retain = 1;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 9);
	tree_close(t);
}

static void wide_nodes_without_candidates_are_scored_too(void **unused)
{
	struct tree *t = tree_of(150, 2);
	struct predictor p = { .tree = t, .all_alike = true };
	struct prune_opts o = prune_defaults(2);
	struct result r;

	(void)unused;
	expand(t, 0, 2);
	for (int32_t i = 1; i < 150; i++)
		tree_add(t, 0, (struct candidate){ 1000 + i, .001f });
	require_nothing(&o);
	o.min_leaves = 30;
	prune(&r, &p, &o);
	/* 149 children and two shadow tokens share the probability. */
	for (uint32_t v = 1; v < t->n; v++)
		assert_close((double)r.sigma[v], 1 / 151., 1e-8, "sigma");
	assert_int_equal(p.scored[0], 151);
	assert_int_equal(r.n, 31);
	o.min_leaves = 1;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 2);
	tree_close(t);
}

/* If the scores are not numbers, no edge is pruned. */
static void scores_that_are_no_numbers_prune_nothing(void **unused)
{
	struct tree *t = tree_of(11, 10);
	struct predictor p = { .tree = t, .not_a_number = true, .spread = 9 };
	struct prune_opts o = prune_defaults(10);
	struct result r;

	(void)unused;
	expand(t, 0, 10);
	for (uint32_t i = 0; i < 10; i++)
		add(t, 0, i);
	o.safeguards = false;
	o.theta = 1;
	prune(&r, &p, &o);
	assert_int_equal(r.n, 11);
	tree_close(t);
}

/* Scores far beyond the range of exp must give finite results. */
static void large_scores_stay_finite(void **unused)
{
	struct tree *t = tree_of(4, 4);
	struct predictor p = { .tree = t, .seed = 5, .spread = 1e6 };
	struct prune_opts o = prune_defaults(4);
	struct result r;
	double sum = 0;

	(void)unused;
	expand(t, 0, 4);
	for (uint32_t i = 0; i < 3; i++)
		add(t, 0, i);
	o.shadow = false;
	prune(&r, &p, &o);
	for (uint32_t v = 1; v < 4; v++)
		sum += (double)r.sigma[v];
	assert_close(sum, 1, 1e-6, "sum of sigma");
	o.temperature = 1e9f;
	prune(&r, &p, &o);
	for (uint32_t v = 1; v < 4; v++)
		assert_close((double)r.sigma[v], 1 / 3., 1e-3, "sigma");
	tree_close(t);
}

static void defaults_are_the_documented_ones(void **unused)
{
	struct prune_opts o = prune_defaults(8);

	(void)unused;
	assert_true(o.theta == 1 / 16.f && o.breadth_theta == 1 / 32.f);
	assert_true(o.temperature == 1 && o.shadow && o.safeguards);
	assert_int_equal(o.breadth, 3);
	assert_int_equal(o.breadth_depth, 1);
	assert_int_equal(o.min_rows, 4);
	assert_int_equal(o.min_leaves, 2);
	assert_true(o.retain == .95f);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(it_is_the_definition),
	cmocka_unit_test(less_pruning_keeps_more),
	cmocka_unit_test(theta_one_leaves_backbone_and_breadth),
	cmocka_unit_test(a_root_alone_is_not_scored),
	cmocka_unit_test(chains_are_pruned_only_without_safeguards),
	cmocka_unit_test(equals_keep_their_order),
	cmocka_unit_test(wide_nodes_without_candidates_are_scored_too),
	cmocka_unit_test(scores_that_are_no_numbers_prune_nothing),
	cmocka_unit_test(large_scores_stay_finite),
	cmocka_unit_test(defaults_are_the_documented_ones),
};

TEST_FILE(tests)
