/*
 * Calibrated drafts (sd.npu, section 3.3: the target's own predictions after
 * the tokens of the prompt) compared with a search over all positions of a
 * prompt, and with the tree of the example in the paper's figure 9.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/drafter_calibrated.h"
#include "host/draft/guess.h"
#include "host/draft/source.h"
#include "tests/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB  24
#define PROMPT 80

static const struct calibrated_options usual = { .key = CALIBRATED_SINGLE,
	.request = 8,
	.successors = 3,
	.share = 0.9,
	.depth = 4 };

static struct source open_source(const struct calibrated_options *o)
{
	struct source s;
	struct err e = { 0 };

	assert_ok(calibrated_open(&s, o, &e), &e);
	return s;
}

/* Set c to the likeliest tokens by these logits. Returns their number, which is
 * at most CALIBRATED_SUCCESSORS, the largest number that a device sends. */
static uint32_t predict(const float *logits, struct candidate c[VOCAB])
{
	struct guess g;

	guess_logits(&g, logits, VOCAB, 1);
	memcpy(c, g.c, g.n * sizeof(*c));
	return g.n < CALIBRATED_SUCCESSORS ? g.n : CALIBRATED_SUCCESSORS;
}

/* Read a prompt as a target does: pass predictions to the source, but only for
 * the rows that the source wants. The predictions are made from logits
 * [n][VOCAB]. Tokens before index `from` are cached and have no predictions.
 * Returns the number of wanted rows. */
static size_t read_prompt_from(struct source *s, const int32_t *prompt,
	size_t n, size_t from, const float *logits)
{
	size_t wanted = 0;

	for (size_t i = from; i < n; i++)
		if (s->wants(s->arg, prompt, n, i)) {
			struct candidate c[VOCAB];

			s->predicted(
				s->arg, i, c, predict(logits + i * VOCAB, c));
			wanted++;
		}
	return wanted;
}

static size_t read_prompt(
	struct source *s, const int32_t *prompt, size_t n, const float *logits)
{
	return read_prompt_from(s, prompt, n, 0, logits);
}

static struct source_place place_of(
	struct source *s, const int32_t *text, size_t n)
{
	struct source_place p;
	struct err e = { 0 };

	assert_ok(s->take(s->arg, text, n, 0, &e), &e);
	s->root(s->arg, &p);
	return p;
}

/* ---- the paper's example, figure 9 --------------------------------------- */

enum { CLINTON, S, SECURITY, HAS, ARRIVED, AT, IN, MOINES, DOT };

static void likely(float *logits, int32_t token, double p)
{
	logits[token] = (float)log(p);
}

static float share_of(const struct source_guess *g, uint32_t n, int32_t token)
{
	for (uint32_t i = 0; i < n; i++)
		if (g[i].token == token)
			return g[i].share;
	return 0;
}

static void test_example(void **state)
{
	static const int32_t prompt[] = { CLINTON, S, SECURITY, HAS, ARRIVED,
		AT, MOINES, DOT };
	static float logits[ARRAY_LEN(prompt)][VOCAB];
	struct source s = open_source(&usual);
	struct source_guess g[16];
	struct source_place p;

	for (size_t i = 0; i < ARRAY_LEN(prompt); i++)
		for (unsigned t = 0; t < VOCAB; t++)
			logits[i][t] = -30;
	likely(logits[0], HAS, 0.3);
	likely(logits[0], ARRIVED, 0.45);
	likely(logits[0], S, 0.2);
	/* DOT is no successor of CLINTON, because the three likelier tokens
	 * together reach the required share of 0.9 */
	likely(logits[0], DOT, 0.05);
	/* AT alone reaches the share of 0.9, so IN is no successor */
	likely(logits[4], AT, 0.92);
	likely(logits[4], IN, 0.08);
	assert_int_equal(read_prompt(&s, prompt, ARRAY_LEN(prompt), logits[0]),
		ARRAY_LEN(prompt) - 1);
	p = place_of(&s, (const int32_t[]){ DOT, CLINTON }, 2);
	assert_int_equal(s.guesses(s.arg, &p, 0, g, ARRAY_LEN(g)), 3);
	assert_true(fabsf(share_of(g, 3, ARRIVED) - 0.45f) < 1e-3f);
	assert_true(fabsf(share_of(g, 3, HAS) - 0.3f) < 1e-3f);
	assert_true(fabsf(share_of(g, 3, S) - 0.2f) < 1e-3f);
	s.step(s.arg, &p, ARRIVED);
	assert_int_equal(s.guesses(s.arg, &p, 1, g, ARRAY_LEN(g)), 1);
	assert_int_equal(g[0].token, AT);
	assert_int_equal(s.guesses(s.arg, &p, usual.depth, g, 1), 0);
	s.close(s.arg);
}

static uint64_t seed(void)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

/* ---- the expected candidates, computed by a search ----------------------- */

struct text {
	int32_t prompt[PROMPT];
	float logits[PROMPT][VOCAB];
	/* probability of each token after the position; 0 if the token is no
	 * successor */
	double next[PROMPT][VOCAB];
	bool kept[PROMPT];
};

static void successors(
	struct text *t, size_t at, const struct calibrated_options *o)
{
	double p[VOCAB], sum = 0, share = 0;

	for (unsigned v = 0; v < VOCAB; v++)
		sum += p[v] = exp((double)t->logits[at][v]);
	for (unsigned k = 0; k < o->successors && share < o->share; k++) {
		unsigned best = 0;

		for (unsigned v = 1; v < VOCAB; v++)
			if (p[v] > p[best])
				best = v;
		t->next[at][best] = p[best] / sum;
		share += p[best] / sum;
		p[best] = -1;
	}
}

static void make_text(
	struct text *t, const struct calibrated_options *o, uint64_t round)
{
	memset(t, 0, sizeof(*t));
	for (size_t i = 0; i < PROMPT; i++) {
		t->prompt[i] = (int32_t)(rng_uniform(seed(), round, i) * 5);
		t->kept[i] = i + 1 < PROMPT;
		for (unsigned v = 0; v < VOCAB; v++)
			t->logits[i][v] = (float)(8 *
				rng_uniform(
					seed(), round + 1000, i * VOCAB + v));
		if (t->kept[i])
			successors(t, i, o);
	}
}

/* Whether the path may use the predictions after position `at` of the prompt:
 * these predictions must be kept, and the last `key` tokens of the path (end[0]
 * is the very last) must equal the `key` prompt tokens that end at `at`. With
 * the option CALIBRATED_REQUEST, a path without drafted tokens (depth 0) may
 * use only the last o->request positions of the prompt. */
static bool stands(const struct text *t, size_t at, const int32_t *end,
	uint32_t key, uint32_t depth, const struct calibrated_options *o)
{
	for (uint32_t k = 0; k < key; k++)
		if (k > at || t->prompt[at - k] != end[-(ptrdiff_t)k])
			return false;
	return t->kept[at] &&
		(depth || o->anchors == CALIBRATED_CONTEXT ||
			PROMPT - at <= o->request);
}

static uint32_t expected(const struct text *t, const int32_t *end,
	uint32_t depth, const struct calibrated_options *o, double *share)
{
	uint32_t key = o->key == CALIBRATED_LONGEST ? CALIBRATED_KEY
						    : (uint32_t)o->key + 1;

	for (;; key--) {
		unsigned found = 0;

		memset(share, 0, VOCAB * sizeof(*share));
		for (size_t i = 0; key && i < PROMPT; i++) {
			if (!stands(t, i, end, key, depth, o))
				continue;
			found++;
			for (unsigned v = 0; v < VOCAB; v++)
				share[v] += t->next[i][v];
		}
		for (unsigned v = 0; found && v < VOCAB; v++)
			share[v] /= found;
		if (found || !key || o->key != CALIBRATED_LONGEST)
			return found ? key : 0;
	}
}

static void check_place(const struct text *t, struct source *s,
	const struct calibrated_options *o, const int32_t *end, uint32_t depth,
	const struct source_place *p)
{
	struct source_guess g[64];
	double want[VOCAB];
	uint32_t key = expected(t, end, depth, o, want), count = 0;
	uint32_t n = s->guesses(s->arg, p, depth, g, ARRAY_LEN(g));

	for (unsigned v = 0; v < VOCAB; v++) {
		double got = (double)share_of(g, n, (int32_t)v);

		count += want[v] > 0;
		if (fabs(got - want[v]) > 1e-5)
			fail_msg("token %u: %g, not %g", v, got, want[v]);
	}
	assert_int_equal(n, count);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(g[i].match, key);
}

static void check_options(struct calibrated_options o)
{
	static struct text t;
	struct source s = open_source(&o);
	for (uint64_t round = 0; round < 20; round++) {
		int32_t path[12];
		struct source_place p;

		make_text(&t, &o, round);
		read_prompt(&s, t.prompt, PROMPT, t.logits[0]);
		for (unsigned i = 0; i < ARRAY_LEN(path); i++)
			path[i] = (int32_t)(6 *
				rng_uniform(seed(), round + 2000, i));
		p = place_of(&s, path, 6);
		for (unsigned i = 5;; i++) {
			check_place(&t, &s, &o, &path[i], i - 5, &p);
			if (i + 1 == ARRAY_LEN(path))
				break;
			s.step(s.arg, &p, path[i + 1]);
		}
	}
	s.close(s.arg);
}

static void test_definition(void **state)
{
	for (int key = CALIBRATED_SINGLE; key <= CALIBRATED_LONGEST; key++)
		for (int anchors = 0; anchors < 2; anchors++) {
			struct calibrated_options o = usual;

			o.key = key;
			o.anchors = anchors;
			o.request = 40;
			o.depth = 16;
			check_options(o);
		}
}

/* Drafts begin in the last o.request tokens of the prompt and may continue
 * anywhere in the prompt. Only predictions for the last prompt are used. */
static void test_request(void **state)
{
	static const int32_t a[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	static float logits[ARRAY_LEN(a)][VOCAB];
	struct calibrated_options o = usual;
	struct source_guess g[8];
	struct source_place p;
	struct source s;

	o.anchors = CALIBRATED_REQUEST;
	o.request = 4;
	s = open_source(&o);
	assert_int_equal(read_prompt(&s, a, ARRAY_LEN(a), logits[0]), 9);
	p = place_of(&s, a, 8);
	assert_true(s.guesses(s.arg, &p, 0, g, ARRAY_LEN(g)) > 0);
	p = place_of(&s, a, 6);
	assert_int_equal(s.guesses(s.arg, &p, 0, g, ARRAY_LEN(g)), 0);
	assert_true(s.guesses(s.arg, &p, 1, g, ARRAY_LEN(g)) > 0);
	read_prompt(&s, a, 2, logits[0]);
	p = place_of(&s, a, 8);
	assert_int_equal(s.guesses(s.arg, &p, 0, g, ARRAY_LEN(g)), 0);
	s.close(s.arg);
}

/* Two prompts have a common prefix, which is cached and not computed for the
 * second prompt. Drafts use the whole second prompt, but not the tokens that
 * only the first prompt has. */
static void test_cached_prefix(void **state)
{
	static const int32_t a[] = { 1, 2, 3, 4, 5, 6 };
	static const int32_t b[] = { 1, 2, 3, 7, 8, 9 };
	static float logits[ARRAY_LEN(a)][VOCAB];
	struct source s = open_source(&usual);
	struct source_guess g[8];

	assert_int_equal(read_prompt(&s, a, ARRAY_LEN(a), logits[0]), 5);
	read_prompt_from(&s, b, ARRAY_LEN(b), 3, logits[0]);
	for (size_t i = 0; i < ARRAY_LEN(a); i++) {
		struct source_place p = place_of(&s, a + i, 1);
		bool common = i < 3;

		assert_int_equal(
			s.guesses(s.arg, &p, 0, g, ARRAY_LEN(g)) > 0, common);
		p = place_of(&s, b + i, 1);
		assert_int_equal(s.guesses(s.arg, &p, 0, g, ARRAY_LEN(g)) > 0,
			i + 1 < ARRAY_LEN(b));
	}
	s.close(s.arg);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_example),
	cmocka_unit_test(test_definition),
	cmocka_unit_test(test_request),
	cmocka_unit_test(test_cached_prefix),
};

TEST_FILE(tests)
