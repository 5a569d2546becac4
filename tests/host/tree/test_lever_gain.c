/*
 * The gain (expected number of emitted tokens) that Lever's builder predicts,
 * compared with the number of tokens that random texts emit. The texts are
 * drawn from the draft's own distribution, or follow it less often after the
 * builder has measured how reliable the draft is.
 */
#include "host/tree/build.h"
#include "host/tree/tree.h"
#include "host/tree/tree_cost.h"
#include "tests/harness.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/greedy_check.h"
#include "tests/host/tree/tree_draw.h"

#define ROWS_MOST 48

/* Number of tokens that a cycle (a draft and the pass that verifies it) emits
 * if the text continues with the n tokens of `text`. */
static uint32_t emitted(const struct tree *t, const int32_t *text, uint32_t n)
{
	int32_t node = 0;
	uint32_t i = 0;

	while (i < n) {
		node = tree_child(t, (uint32_t)node, text[i++]);
		if (node < 0)
			break;
	}
	return i;
}

/* Expected number of emitted tokens: the sum over all texts of n tokens that
 * the draft's own distribution can produce, weighted by their probabilities. */
static double enumerate(const struct hash_drafter *h, const struct tree *t,
	uint64_t path, int32_t *text, uint32_t at, uint32_t n)
{
	struct candidate c[TREE_CANDIDATES];
	uint32_t k = hash_candidates(h, path, c);
	double sum = 0, rest = 1;

	if (at == n)
		return emitted(t, text, n);
	for (uint32_t i = 0; i <= k; i++) {
		double p = i < k ? (double)c[i].q : rest;

		rest -= p;
		text[at] = i < k ? c[i].token : HASH_OUTSIDE;
		sum += p *
			enumerate(h, t, hash_child(path, text[at]), text,
				at + 1, n);
	}
	return sum;
}

static void test_gain_is_expected_tokens(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < 40; round++) {
		struct hash_drafter h = {
			.seed = seed + drawn, .k = 1 + draw(3), .sharp = draw(5)
		};
		const struct build_limits l = { 1 + draw(20), 1 + draw(4) };
		struct tree *t = open_tree(l.rows, h.k);
		int32_t text[5];
		struct gain_rule p;

		random_cost(l.rows);
		gain_rule_init(&p);
		p.best_prefix = draw(2);
		build(&h, 1, t, &l, &p);
		assert_close(
			enumerate(&h, t, hash_root(&h), text, 0, l.depth + 1),
			p.gain, 1e-6, "tokens");
		tree_close(t);
	}
}

static void test_reliability_by_hand(void **state)
{
	struct tree *t = open_tree(4, 2);
	const uint32_t path[] = { 1, 2 };
	struct gain_rule p;

	gain_rule_init(&p);
	assert_close(gain_rule_reliability(&p), 1, 0, "at first");
	tree_reset(t, 5);
	t->n_candidates[0] = 2;
	t->candidate[0] = (struct candidate){ 10, .5F };
	t->candidate[1] = (struct candidate){ 11, .25F };
	tree_add(t, 0, t->candidate[0]);
	t->n_candidates[1] = 1;
	t->candidate[2] = (struct candidate){ 12, .5F };
	/* The cycle ends at the root, because 99 is no candidate. The averages
	 * become hit = 0.9 and mass = 0.975. */
	gain_rule_saw(&p, t, path, 0, 99);
	assert_close(p.hit, 0.9, 1e-12, "hit");
	assert_close(p.mass, 0.975, 1e-12, "mass");
	assert_close(gain_rule_reliability(&p), 0.9 / 0.975, 1e-12, "rho");
	/* The first token is a node at the root (a hit); the second is no
	 * candidate of this node (a miss). */
	gain_rule_saw(&p, t, path, 1, 10);
	assert_close(p.hit, (0.9 * 0.9 + 0.1) * 0.9, 1e-12, "hit");
	assert_close(p.mass, (0.975 * 0.9 + 0.075) * 0.9 + 0.05, 1e-12, "mass");
	/* A correct candidate counts as a hit even if it is not a node. A node
	 * that was not expanded does not count. */
	p.hit = p.mass = 0.5;
	gain_rule_saw(&p, t, path, 0, 11);
	assert_close(p.hit, 0.55, 1e-12, "hit");
	p.hit = p.mass = 0.5;
	tree_add(t, 1, t->candidate[2]);
	gain_rule_saw(&p, t, path, 2, 12);
	assert_close(p.hit, (0.5 * 0.9 + 0.1) * 0.9 + 0.1, 1e-12, "hits");
	p.hit = 0.01;
	assert_close(gain_rule_reliability(&p), 0.3, 0, "least");
	p.hit = 1;
	assert_close(gain_rule_reliability(&p), 1, 0, "most");
	tree_close(t);
}

/* The next token of a target that follows the draft's distribution only with
 * probability `follows`. */
static int32_t next_token(
	const struct hash_drafter *h, uint64_t path, double follows)
{
	struct candidate c[TREE_CANDIDATES];
	uint32_t n = hash_candidates(h, path, c);
	double u = unit() / follows;

	for (uint32_t i = 0; i < n; i++) {
		u -= (double)c[i].q;
		if (u < 0)
			return c[i].token;
	}
	return HASH_OUTSIDE;
}

static uint32_t verify(struct gain_rule *p, const struct hash_drafter *h,
	const struct tree *t, double follows)
{
	uint32_t path[ROWS_MOST], n = 0;
	uint64_t at = hash_root(h);
	int32_t node = 0, token;

	for (;;) {
		token = next_token(h, at, follows);
		node = tree_child(t, (uint32_t)node, token);
		if (node < 0)
			break;
		at = hash_child(at, token);
		path[n++] = (uint32_t)node;
	}
	gain_rule_saw(p, t, path, n, token);
	return n + 1;
}

static void test_calibrated(void **state)
{
	static const double follows[] = { 1, 0.85, 0.6, 0.4 };
	const struct build_limits l = { 24, 8 };
	struct tree *t = open_tree(l.rows, 6);

	seed = harness_seed();
	cost_init(&cost, 1);
	for (uint32_t n = 1; n <= 24; n++)
		cost_saw_verify(&cost, n, 1, 900 + 20 * n);
	for (uint32_t i = 0; i < 4; i++) {
		double gain = 0, tokens = 0;
		struct gain_rule p;

		gain_rule_init(&p);
		p.rate = 0.01;
		p.best_prefix = i % 2;
		for (uint32_t cycle = 0; cycle < 6000; cycle++) {
			struct hash_drafter h = {
				.seed = drawn, .k = 6, .sharp = 4
			};
			uint32_t got;

			build(&h, 1, t, &l, &p);
			got = verify(&p, &h, t, follows[i]);
			if (cycle < 1000)
				continue;
			gain += p.gain / 5000;
			tokens += got / 5000.;
		}
		print_message("follows %.2f: %.3f tokens a cycle, %.3f "
			      "predicted, reliability %.3f\n",
			follows[i], tokens, gain, gain_rule_reliability(&p));
		assert_close(gain, tokens, 0.05 * tokens, "tokens a cycle");
	}
	tree_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_gain_is_expected_tokens),
	cmocka_unit_test(test_reliability_by_hand),
	cmocka_unit_test(test_calibrated),
};

TEST_FILE(tests)
