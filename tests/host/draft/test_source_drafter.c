/*
 * The drafter that drafts the guesses of a source (struct source), here of a
 * scripted source: which guesses become candidates, and how accepted and
 * rejected tokens change the weights of the guesses' origins (the rules that
 * made the guesses).
 */
#include "base/err.h"
#include "host/draft/reliance.h"
#include "host/draft/source.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"

#include <math.h>

/* A source that guesses t + 1 after a token t, with origin 0. At the root it
 * also guesses t + 2 and once more t + 1, with origin 1 and a longer match. Its
 * rule for chains chooses t + 2 at all nodes. The source records its calls. */
struct script {
	struct source_place root;
	size_t n, same;
	unsigned closed;
	struct search_work work;
};

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct script *s = arg;

	s->n = n;
	s->same = same;
	s->root.at[0] = (uint32_t)text[n - 1];
	return 0;
}

static void root(void *arg, struct source_place *p)
{
	*p = ((struct script *)arg)->root;
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	p->at[0] = (uint32_t)token;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	int32_t t = (int32_t)p->at[0];

	if (most == 1) {
		out[0] = (struct source_guess){ t + 2, 0.25f, 1, 9 };
		return 1;
	}
	assert_true(most >= 3);
	out[0] = (struct source_guess){ t + 1, 0.5f, 0, 1 };
	out[1] = (struct source_guess){ t + 2, 0.25f, 1, 9 };
	out[2] = (struct source_guess){ t + 1, 0.25f, 1, 9 };
	return depth ? 1 : 3;
}

static void close_script(void *arg)
{
	((struct script *)arg)->closed++;
}

static struct drafter open_script(struct script *s)
{
	const struct source source = { .arg = s,
		.work = &s->work,
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.close = close_script };
	struct drafter d;
	struct err e = { 0 };

	assert_ok(source_drafter_open(&d, &source, &e), &e);
	return d;
}

static struct tree *open_tree(uint32_t rows, uint32_t k)
{
	struct tree *t;
	struct err e = { 0 };

	assert_ok(tree_open(&t, rows, k, &e), &e);
	return t;
}

static double factor(uint32_t origin, uint32_t match, uint32_t depth)
{
	const struct grounds g = { origin, match, depth };
	struct reliance r;

	reliance_init(&r);
	return reliance_of(&r, &g);
}

static void near(double a, double b)
{
	if (fabs(a - b) > 1e-6)
		fail_msg("%g is not %g", a, b);
}

/* A token that two origins guess becomes one candidate. Its probability is that
 * of at least one of the two guesses being right. */
static void test_candidates(void **state)
{
	struct script s = { 0 };
	struct drafter d = open_script(&s);
	struct tree *t = open_tree(8, 4);
	const int32_t text[] = { 7, 8, 9 };
	const struct build_limits limits = { 4, 3 };
	struct build b = { 0 };
	struct err e = { 0 };
	double least = 0.25 * factor(1, 9, 0), more = 0.5 * factor(0, 1, 0);

	assert_ok(d.begin(d.arg, t, text, 3, &e), &e);
	assert_int_equal(t->n_candidates[0], 2);
	near((double)t->candidate[0].q, more + least - more * least);
	near((double)t->candidate[1].q, least);
	assert_int_equal(t->candidate[0].token + t->candidate[1].token, 21);
	build_chain_begin(&b, t, &limits);
	assert_ok(build_run(&b, &d, &e), &e);
	assert_int_equal(t->n, 4);
	for (uint32_t i = 2; i < 4; i++) {
		assert_int_equal(t->token[i], t->token[i - 1] + 1);
		near((double)t->q[i], 0.5 * factor(0, 1, i - 1));
	}
	tree_close(t);
	drafter_close(&d);
	assert_int_equal(s.closed, 1);
}

/* A chain has the tokens that the source's rule for chains chooses, even if
 * they are not the likeliest. */
static void test_chain(void **state)
{
	struct script s = { 0 };
	struct drafter d = open_script(&s);
	struct tree *t = open_tree(4, 1);
	const int32_t text[] = { 7, 9 };
	const struct build_limits limits = { 4, 3 };
	struct build b = { 0 };
	struct err e = { 0 };

	assert_ok(d.begin(d.arg, t, text, 2, &e), &e);
	build_chain_begin(&b, t, &limits);
	assert_ok(build_run(&b, &d, &e), &e);
	assert_int_equal(t->n, 4);
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(t->token[i], t->token[i - 1] + 2);
	tree_close(t);
	drafter_close(&d);
}

/* Accepted guesses raise the weight of their origin and rejected guesses lower
 * it. */
static void test_learns(void **state)
{
	struct script s = { 0 };
	struct drafter d = open_script(&s);
	struct tree *t = open_tree(8, 4);
	int32_t text[200];
	struct err e = { 0 };
	size_t n = 3;

	for (int32_t i = 0; i < 200; i++)
		text[i] = i;
	for (; n < 190; n += 3) {
		assert_ok(d.begin(d.arg, t, text, n, &e), &e);
		d.saw(d.arg, text, n + 3);
	}
	assert_ok(d.begin(d.arg, t, text, n, &e), &e);
	/* The first origin's guess has the share 0.5 but was always accepted,
	 * so its q is near 1. */
	assert_int_equal(t->candidate[0].token, text[n - 1] + 1);
	assert_true(t->candidate[0].q > 0.93f);
	/* The second origin guessed t + 1 and t + 2 with the share 0.25 each,
	 * and both guesses count together. t + 1 always came, so the common
	 * factor is near 2, and the q of t + 2 is near 0.5. */
	assert_true(t->candidate[1].q > 0.45f && t->candidate[1].q < 0.55f);
	for (; n < 190 + 150; n++) {
		int32_t other[400] = { 0 };

		assert_ok(d.begin(d.arg, t, other, n, &e), &e);
		d.saw(d.arg, other, n + 1);
	}
	assert_ok(d.begin(d.arg, t, text, 100, &e), &e);
	assert_true(t->candidate[0].q < 0.4f);
	tree_close(t);
	drafter_close(&d);
}

/* The source receives the number of tokens that the new text and the previous
 * text have in common at the beginning. */
static void test_same(void **state)
{
	struct script s = { 0 };
	struct drafter d = open_script(&s);
	struct tree *t = open_tree(8, 4);
	const int32_t a[] = { 1, 2, 3, 4, 5 }, b[] = { 1, 2, 9 };
	struct err e = { 0 };

	assert_ok(d.begin(d.arg, t, a, 3, &e), &e);
	assert_int_equal(s.same, 0);
	assert_ok(d.begin(d.arg, t, a, 5, &e), &e);
	assert_int_equal(s.same, 3);
	assert_ok(d.begin(d.arg, t, b, 3, &e), &e);
	assert_int_equal(s.same, 2);
	assert_int_equal(s.n, 3);
	tree_close(t);
	drafter_close(&d);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_candidates),
	cmocka_unit_test(test_chain),
	cmocka_unit_test(test_learns),
	cmocka_unit_test(test_same),
};

TEST_FILE(tests)
