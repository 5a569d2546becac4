/*
 * Pruning compared with the best of all subtrees. On small random trees with
 * random costs, all subtrees are tried, with merits (probabilities that a row
 * is reached) and times that the test computes anew.
 */
#include "host/tree/build.h"
#include "host/tree/pass_cost.h"
#include "host/tree/prune.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/tree_draw.h"

#include <math.h>
#include <string.h>

/* maximum number of nodes; small, as all subtrees are tried */
#define NODES  PASS_KNOTS
#define ROUNDS 400

/* A scripted predictor, and the tokens that it has scored. */
struct predictor {
	const struct tree *tree;
	uint64_t seed;
	double spread; /* range of the scores */
	bool not_a_number;
	/* number of tokens that were scored after each node */
	uint32_t scored[NODES];
};

static float score_of(const struct predictor *p, uint32_t node, int32_t token)
{
	if (p->not_a_number && token % 5 == 0)
		return NAN;
	return (float)(p->spread * rng_uniform(p->seed, node, (uint64_t)token));
}

static void score(
	void *arg, uint32_t node, const int32_t *token, uint32_t n, float *out)
{
	struct predictor *p = arg;

	assert_true(n > 0 && node < p->tree->n);
	p->scored[node] += n;
	for (uint32_t i = 0; i < n; i++)
		out[i] = score_of(p, node, token[i]);
}

/* ---- trees --------------------------------------------------------------- */

static void expand(struct tree *t, uint32_t u, uint32_t n)
{
	double q = 0.2 + 0.7 * unit();

	t->n_candidates[u] = n;
	for (uint32_t i = 0; i < n; i++, q *= unit())
		t->candidate[u * t->k + i] =
			(struct candidate){ (int32_t)(1000 * u + i),
				(float)(q / 2) };
}

/* A random tree, in which a node's children are its first candidates. */
static struct tree *random_tree(void)
{
	uint32_t n = 1 + draw(NODES), k = 1 + draw(4);
	struct tree *t = open_tree(n, k);

	tree_reset(t, 7);
	expand(t, 0, k);
	while (t->n < n) {
		uint32_t u = draw(t->n), v;

		if (t->n_children[u] == t->n_candidates[u])
			u = t->n - 1;
		v = tree_add(t, u, t->candidate[u * t->k + t->n_children[u]]);
		expand(t, v, k);
	}
	return t;
}

/* ---- merits and rates, computed anew ------------------------------------- */

/* The probability that the target draws the token of v after the path of its
 * parent. */
static double edge(const struct predictor *p, const struct prune_opts *o,
	const struct tree *t, uint32_t v)
{
	uint32_t u = (uint32_t)t->parent[v];
	const struct candidate *c = t->candidate + u * t->k;
	uint32_t n = o->shadow ? t->n_candidates[u] : t->n_children[u];
	double own = 0, sum = 0, mass = 0;

	for (uint32_t i = 0; i < t->n_candidates[u]; i++) {
		double w = o->calibration.draft * log((double)c[i].q) +
			o->calibration.exit *
				(double)score_of(p, u, c[i].token);

		mass += (double)c[i].q;
		sum += i < n ? exp(w) : 0;
		if (c[i].token == t->token[v])
			own = exp(w);
	}
	return fmin(1, mass * o->rule->hit / o->rule->mass) * own / sum;
}

static double rate_of(const struct tree *t, const struct prune_opts *o,
	const double *merit, uint32_t set)
{
	const struct pass_cost *c = o->cost;
	double gain = 0, rows, host, still;
	uint32_t n = 0;

	for (uint32_t v = 0; v < t->n; v++) {
		if (!(set >> v & 1))
			continue;
		if (v && !(set >> t->parent[v] & 1))
			return 0;
		gain += merit[v];
		n++;
	}
	rows = o->lower * c->time[t->n - 1] + (1 - o->lower) * c->time[n - 1];
	host = gain * c->token + o->drafting;
	still = fmax(0, host + c->before * rows - c->ahead);
	return gain / (c->other + fmax(c->read + still, host + rows));
}

/* ---- running ------------------------------------------------------------- */

struct result {
	uint32_t keep[NODES], kept;
	double merit[NODES];
	float score[NODES * TREE_CANDIDATES];
	struct prune_result result;
};

static void prune(
	struct result *r, struct predictor *p, const struct prune_opts *o)
{
	const struct tree *t = p->tree;

	memset(p->scored, 0, sizeof(p->scored));
	*r = (struct result){ 0 };
	r->result = (struct prune_result){
		.keep = r->keep, .merit = r->merit, .score = r->score
	};
	prune_tree(t, o, score, p, &r->result);
	assert_in_range(r->result.n, 1, t->n);
	for (uint32_t i = 0; i < r->result.n; i++) {
		uint32_t v = r->keep[i];

		assert_true(i ? v > r->keep[i - 1] : !v);
		if (v)
			assert_true(r->kept >> t->parent[v] & 1);
		r->kept |= 1U << v;
	}
}

static struct gain_rule rule;
static struct pass_cost cost;

static struct prune_opts random_opts(void)
{
	struct prune_opts o = { .threshold = -1,
		.shadow = draw(4),
		.rule = &rule,
		.cost = &cost,
		.lower = unit(),
		.drafting = 50 * unit() };
	uint32_t row[NODES];
	double time[NODES], rise = 40 * unit();

	gain_rule_init(&rule);
	rule.hit = 0.5 + unit() / 2;
	calibration_init(&o.calibration, unit(), 2 * unit());
	cost = (struct pass_cost){ .read = draw(2) ? 200 * unit() : 0,
		.ahead = 50 * unit(),
		.before = unit(),
		.token = draw(2) ? 10 * unit() : 0,
		.other = 50 * unit() };
	for (uint32_t i = 0; i < NODES; i++) {
		row[i] = i + 1;
		time[i] = (i ? time[i - 1] : 50) + (draw(3) ? rise : 0);
	}
	pass_cost_set(&cost, row, time, NODES);
	return o;
}

static void test_best_of_all_subtrees(void **state)
{
	uint32_t pruned = 0, whole = 0;

	seed = harness_seed();
	for (int round = 0; round < ROUNDS; round++) {
		struct tree *t = random_tree();
		struct prune_opts o = random_opts();
		struct predictor p = {
			.tree = t, .seed = seed + drawn, .spread = 1 + draw(9)
		};
		double merit[NODES] = { 1 }, best = 0, kept = 0;
		struct result r;

		prune(&r, &p, &o);
		for (uint32_t v = 0; v < t->n; v++) {
			if (v)
				merit[v] = merit[t->parent[v]] *
					edge(&p, &o, t, v);
			assert_close(r.merit[v], merit[v], 1e-6, "merit");
			kept += r.kept >> v & 1 ? merit[v] : 0;
			assert_int_equal(p.scored[v],
				!t->n_children[v]  ? 0
					: o.shadow ? t->n_candidates[v]
						   : t->n_children[v]);
		}
		assert_close(r.result.kept_tokens, kept, 1e-6, "tokens");
		for (uint32_t set = 1; set < 1U << t->n; set += 2)
			best = fmax(best, rate_of(t, &o, merit, set));
		assert_close(rate_of(t, &o, merit, r.kept), best, 1e-6, "rate");
		pruned += r.result.n < t->n;
		whole += r.result.n == t->n;
		tree_close(t);
	}
	assert_true(pruned > ROUNDS / 4 && whole > ROUNDS / 8);
}

/* With a threshold, exactly the rows whose merit is at least the threshold are
 * kept. */
static void test_threshold(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < ROUNDS / 4; round++) {
		struct tree *t = random_tree();
		struct prune_opts o = random_opts();
		struct predictor p = { .tree = t, .seed = seed, .spread = 4 };
		struct result r;

		o.threshold = unit();
		prune(&r, &p, &o);
		for (uint32_t v = 1; v < t->n; v++)
			assert_int_equal(
				r.kept >> v & 1, r.merit[v] >= o.threshold);
		o.threshold = 2;
		prune(&r, &p, &o);
		assert_int_equal(r.result.n, 1);
		tree_close(t);
	}
}

/* If no cost is known, nothing is pruned. */
static void test_nothing_known(void **state)
{
	struct prune_opts o = random_opts();
	struct result r;

	seed = harness_seed();
	for (int round = 0; round < 20; round++) {
		struct tree *t = random_tree();
		struct predictor p = { .tree = t, .spread = 4 };

		cost.n_rows = 0;
		prune(&r, &p, &o);
		assert_int_equal(r.result.n, t->n);
		tree_close(t);
	}
}

/* If a score is NaN, only the probabilities of the draft count. Large scores
 * give finite merits. */
static void test_unusual_scores(void **state)
{
	struct tree *t = open_tree(4, 4);
	struct predictor p = { .tree = t, .spread = 9, .not_a_number = true };
	struct prune_opts o = random_opts();
	struct result r;
	double q[4], all;

	seed = harness_seed();
	tree_reset(t, 7);
	expand(t, 0, 4);
	for (uint32_t i = 0; i < 3; i++)
		tree_add(t, 0, t->candidate[i]);
	o.shadow = true;
	prune(&r, &p, &o);
	gain_rule_estimate(&rule, &o.calibration, t, 0, NULL, 4, q);
	for (uint32_t i = 0; i < 3; i++)
		assert_close(r.merit[i + 1], q[i], 1e-12, "the draft alone");
	assert_true(isnan(r.score[0]));
	p.not_a_number = false;
	p.spread = 1e6;
	prune(&r, &p, &o);
	all = r.merit[1] + r.merit[2] + r.merit[3];
	assert_true(all >= 0 && all <= 1 + 1e-9);
	tree_close(t);
}

/* The weights of draft and predictor are learned from verifications. The
 * verified tokens are drawn from the draft's probabilities in one case, and
 * from the predictor's scores in the other; the weight of the source must
 * become 1, and the other weight 0. */
static void test_learns_whom_to_trust(void **state)
{
	seed = harness_seed();
	for (int right = 0; right < 2; right++) {
		struct prune_opts o = random_opts();
		struct tree *t = open_tree(2, 4);

		o.shadow = true;
		calibration_init(&o.calibration, 0.5, 0.5);
		for (int round = 0; round < 2000; round++) {
			struct predictor p = {
				.tree = t, .seed = seed + drawn, .spread = 6
			};
			double share[TREE_CANDIDATES], u = unit();
			uint32_t drawn_at = 0;
			struct result r;

			tree_reset(t, 7);
			expand(t, 0, 4);
			tree_add(t, 0, t->candidate[0]);
			prune(&r, &p, &o);
			calibration_shares(
				&(struct calibration){
					.draft = !right, .exit = right },
				t->candidate, r.score, 4, share);
			while (drawn_at < 3 && (u -= share[drawn_at]) > 0)
				drawn_at++;
			prune_saw(&o, t, r.score, NULL, 0,
				t->candidate[drawn_at].token);
		}
		print_message("draft %.2f, exit %.2f\n", o.calibration.draft,
			o.calibration.exit);
		assert_close(o.calibration.draft, !right, 0.3, "draft");
		assert_close(o.calibration.exit, right, 0.3, "exit");
		tree_close(t);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_best_of_all_subtrees),
	cmocka_unit_test(test_threshold),
	cmocka_unit_test(test_nothing_known),
	cmocka_unit_test(test_unusual_scores),
	cmocka_unit_test(test_learns_whom_to_trust),
};

TEST_FILE(tests)
