/*
 * The sampler compared with probabilities that the test computes for each token
 * of a small vocabulary.
 */
#include "base/err.h"
#include "host/text/sampler.h"
#include "tests/harness.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define V     8
#define DRAWS 20000

/* Probabilities at temperature 1. In descending order they are .36 .22 .22 .08
 * .06 .03 .02 .01; two tokens are equal. */
static const double law[V] = { .06, .22, .01, .36, .03, .22, .02, .08 };
static float logits[V];

static void make_logits(void)
{
	for (int i = 0; i < V; i++)
		logits[i] = (float)(log(law[i]) + 3);
}

static struct sampler *open_sampler(const struct sampler_opts *o, uint32_t n)
{
	struct err e = { 0 };
	struct sampler *s;

	assert_ok(sampler_open(&s, o, n, &e), &e);
	return s;
}

/* Draw a token at each position 0 .. DRAWS-1 and count the tokens. */
static void count_draws(const struct sampler_opts *o, unsigned count[V])
{
	struct sampler *s = open_sampler(o, V);

	memset(count, 0, V * sizeof(*count));
	for (uint64_t p = 0; p < DRAWS; p++) {
		int32_t id = sampler_draw_from(s, 0, logits, NULL, 0, 0, p);

		assert_in_range(id, 0, V - 1);
		count[id]++;
	}
	sampler_close(s);
}

/* Chi-square test of counts against the probabilities p[]. Tokens of
 * probability 0 must not occur. */
static void check_law(const unsigned count[V], const double p[V])
{
	/* 99.99 % quantiles for 1 to 7 degrees of freedom. */
	static const double bound[] = { 15.14, 18.42, 21.11, 23.51, 25.74,
		27.86, 29.88 };
	double chi = 0;
	int kinds = 0;

	for (int i = 0; i < V; i++) {
		double want = p[i] * DRAWS;

		if (p[i] == 0) {
			assert_int_equal(count[i], 0);
			continue;
		}
		chi += (count[i] - want) * (count[i] - want) / want;
		kinds++;
	}
	if (kinds == 1)
		return;
	assert_close(chi, 0, bound[kinds - 2], "chi-square");
	/* The same counts must fail the test with probabilities changed by 5 %,
	 * which shows that the test can fail. */
	chi = 0;
	for (int i = 0, sign = 1; i < V; i++) {
		double want = p[i] * DRAWS * (1 + .05 * sign);

		if (p[i] > 0)
			chi += (count[i] - want) * (count[i] - want) / want;
		sign = p[i] > 0 ? -sign : sign;
	}
	assert_true(chi > bound[kinds - 2]);
}

/* The probabilities of the kept tokens, renormalized at a temperature. */
static void renormalise(double out[V], const bool keep[V], double temperature)
{
	double sum = 0;

	for (int i = 0; i < V; i++) {
		out[i] = keep[i] ? pow(law[i], 1 / temperature) : 0;
		sum += out[i];
	}
	for (int i = 0; i < V; i++)
		out[i] /= sum;
}

static void check_kept(const struct sampler_opts *o, const bool keep[V])
{
	unsigned count[V];
	double p[V];

	make_logits();
	renormalise(p, keep, o->temperature);
	count_draws(o, count);
	check_law(count, p);
}

static const bool all[V] = { 1, 1, 1, 1, 1, 1, 1, 1 };

static void test_temperature_one(void **state)
{
	struct sampler_opts o = sampler_defaults;

	o.temperature = 1;
	check_kept(&o, all);
}

static void test_temperatures(void **state)
{
	struct sampler_opts o = sampler_defaults;

	o.temperature = 0.5;
	check_kept(&o, all);
	o.temperature = 1.5;
	o.seed = 77;
	check_kept(&o, all);
}

static void test_top_k(void **state)
{
	/* The 4 likeliest tokens are 3, 1, 5 and 7. With k = 2, token 3 is
	 * kept, and of the equally likely tokens 1 and 5 the one with the lower
	 * id. */
	static const bool four[V] = { 0, 1, 0, 1, 0, 1, 0, 1 };
	static const bool two[V] = { 0, 1, 0, 1, 0, 0, 0, 0 };
	struct sampler_opts o = sampler_defaults;

	o.temperature = 1;
	o.top_k = 4;
	check_kept(&o, four);
	o.top_k = 2;
	check_kept(&o, two);
	o.top_k = 100;
	check_kept(&o, all);
}

static void test_top_p(void **state)
{
	/* .36 + .22 + .22 = .80 */
	static const bool three[V] = { 0, 1, 0, 1, 0, 1, 0, 0 };
	static const bool four[V] = { 0, 1, 0, 1, 0, 1, 0, 1 };
	static const bool one[V] = { 0, 0, 0, 1, 0, 0, 0, 0 };
	struct sampler_opts o = sampler_defaults;

	o.temperature = 1;
	o.top_p = 0.79;
	check_kept(&o, three);
	o.top_p = 0.81;
	check_kept(&o, four);
	o.top_p = 0.30;
	check_kept(&o, one);
	o.top_p = 0.9999;
	check_kept(&o, all);
}

static void test_min_p(void **state)
{
	/* The limit .2 * .36 = .072 keeps .08 and drops .06. */
	static const bool four[V] = { 0, 1, 0, 1, 0, 1, 0, 1 };
	struct sampler_opts o = sampler_defaults;

	o.temperature = 1;
	o.min_p = 0.2;
	check_kept(&o, four);
	/* Filters use the probabilities before the temperature is applied. */
	o.temperature = 2;
	check_kept(&o, four);
}

static void test_filters_in_order(void **state)
{
	/* Top-k 4 keeps .36 .22 .22 .08 with the sum .88. As .36/.88 = .41 and
	 * .41 + .25 = .66, top-p .65 then keeps only the tokens 3 and 1. If
	 * top-p came first, it would need three tokens for .65 of all. */
	static const bool two[V] = { 0, 1, 0, 1, 0, 0, 0, 0 };
	struct sampler_opts o = sampler_defaults;

	o.temperature = 1;
	o.top_k = 4;
	o.top_p = 0.65;
	check_kept(&o, two);
}

static void test_greedy(void **state)
{
	static const float tie[V] = { 1, 5, 2, 5, 5, -1, 0, 4 };
	static const float nan_first[V] = { NAN, 1, 3, NAN, 3, 2, 0, 0 };
	struct sampler *s = open_sampler(&sampler_defaults, V);

	make_logits();
	assert_int_equal(sampler_draw_from(s, 0, logits, NULL, 0, 0, 9), 3);
	assert_int_equal(sampler_draw_from(s, 0, tie, NULL, 0, 0, 9), 1);
	assert_int_equal(sampler_draw_from(s, 0, nan_first, NULL, 0, 0, 9), 2);
	sampler_close(s);
}

static void test_by_position(void **state)
{
	struct sampler_opts o = sampler_defaults;
	struct sampler *a, *b;
	unsigned differ = 0;

	make_logits();
	o.temperature = 1;
	o.seed = 5;
	a = open_sampler(&o, V);
	b = open_sampler(&o, V);
	/* The token at a position does not depend on earlier draws. */
	for (uint64_t p = 0; p < 200; p++) {
		int32_t id = sampler_draw_from(a, 0, logits, NULL, 0, 0, p);

		sampler_draw_from(b, 0, logits, NULL, 0, 0, p * 31);
		assert_int_equal(
			sampler_draw_from(b, 0, logits, NULL, 0, 0, p), id);
	}
	sampler_close(b);
	o.seed = 6;
	b = open_sampler(&o, V);
	for (uint64_t p = 0; p < 200; p++)
		differ += sampler_draw_from(a, 0, logits, NULL, 0, 0, p) !=
			sampler_draw_from(b, 0, logits, NULL, 0, 0, p);
	/* expected share of different tokens: 1 - sum p^2 = .76 */
	assert_in_range(differ, 50, 200);
	sampler_close(a);
	sampler_close(b);
}

static void test_repetition_penalty(void **state)
{
	static const float l[V] = { 4, 3, -1, -2, 0, 0, 0, 0 };
	static const float low[V] = { -9, -9, -1, -2, -9, -9, -9, -9 };
	static const int32_t history[] = { 2, 0, 0, 0, 5 };
	struct sampler_opts o = sampler_defaults;
	struct sampler *s;

	/* As 4 / 1.5 < 3, the penalty for one occurrence of token 0 makes token
	 * 1 the best. The other occurrences of token 0 have no further
	 * effect. */
	o.repeat_penalty = 1.5;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 5, 5, 5), 1);
	sampler_close(s);
	/* As 4 / 1.3 > 3, token 0 is still the best. If the penalty counted all
	 * three occurrences, token 1 would be the best. */
	o.repeat_penalty = 1.3;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 5, 5, 5), 0);
	sampler_close(s);
	/* A negative logit is multiplied, and -1 * 3 < -2. */
	o.repeat_penalty = 3;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, low, history, 5, 5, 5), 3);
	sampler_close(s);
	/* Only the last token is within the range of the penalty, so the
	 * earlier ones have no effect. */
	o.repeat_last = 1;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, low, history, 5, 5, 5), 2);
	/* An id outside the vocabulary has no effect. */
	assert_int_equal(sampler_draw_from(s, 0, low,
				 (const int32_t[]){ 1 << 30 }, 1, 1, 5),
		2);
	sampler_close(s);
}

static void biases_are_added_before_the_choice(void **state)
{
	static const float l[V] = { 4, 3, -1, -2, 0, 0, 0, 0 };
	static const struct token_bias bias[] = { { 0, -100 }, { 5, 1.5f },
		{ 5, 1.75f } };
	struct sampler_opts o = sampler_defaults;
	struct sampler *s;

	/* The two biases of token 5 are added: 3.25 is more than 3. */
	o.bias = bias;
	o.n_bias = 3;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, NULL, 0, 0, 0), 5);
	sampler_close(s);
	o.n_bias = 2;
	o.temperature = 2;
	s = open_sampler(&o, V);
	for (uint64_t p = 0; p < 500; p++)
		assert_int_not_equal(
			sampler_draw_from(s, 0, l, NULL, 0, 0, p), 0);
	sampler_close(s);
}

static void generated_tokens_are_penalized_as_often_as_they_occur(void **state)
{
	static const float l[V] = { 4, 3, 2, 1, 0, 0, 0, 0 };
	static const int32_t history[] = { 1, 2, 0, 0, 1 << 30 };
	struct sampler_opts o = sampler_defaults;
	struct sampler *s;

	/* Token 0 was generated twice, 1 and 2 are tokens of the prompt. */
	o.presence_penalty = 0.75;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 2, 5, 5), 0);
	sampler_close(s);
	o.presence_penalty = 1.5;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 2, 5, 5), 1);
	sampler_close(s);
	o.presence_penalty = 0;
	o.frequency_penalty = 0.75;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 2, 3, 3), 0);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 2, 5, 5), 1);
	/* If the history has no prompt, 1 and 2 are penalized too, and 0 is the
	 * best token again. */
	assert_int_equal(sampler_draw_from(s, 0, l, history, 0, 5, 5), 0);
	sampler_close(s);
	/* A negative penalty makes repetition likelier. */
	o.frequency_penalty = -1.5;
	s = open_sampler(&o, V);
	assert_int_equal(sampler_draw_from(s, 0, l, history, 1, 2, 2), 0);
	assert_int_equal(
		sampler_draw_from(s, 0, l, (const int32_t[]){ 2, 2 }, 0, 2, 2),
		2);
	sampler_close(s);
}

/* Descending order, for qsort. */
static int larger(const void *a, const void *b)
{
	const float *x = a, *y = b;

	return *x > *y ? -1 : *x < *y;
}

/* For a large vocabulary, the partial selections give the same result as a full
 * sort. */
static void test_large_vocabulary(void **state)
{
	enum { N = 5000 };
	static float l[N], sorted[N];
	struct sampler_opts o = sampler_defaults;
	struct sampler *s;
	double sum = 0, reached = 0;
	float least = 0;

	srand((unsigned)harness_seed());
	for (int i = 0; i < N; i++)
		l[i] = sorted[i] = (float)(rand() % 20000) * 1e-3f;
	qsort(sorted, N, sizeof(*sorted), larger);
	for (int i = 0; i < N; i++)
		sum += exp((double)sorted[i] - 20);
	for (int i = 0; i < N && reached < .5 * sum; i++) {
		reached += exp((double)sorted[i] - 20);
		least = sorted[i];
	}
	o.temperature = 1;
	o.top_p = .5;
	s = open_sampler(&o, N);
	for (uint64_t p = 0; p < 300; p++)
		assert_true(
			l[sampler_draw_from(s, 0, l, NULL, 0, 0, p)] >= least);
	sampler_close(s);
	o.top_p = 1;
	o.top_k = 37;
	o.temperature = 1000; /* nearly uniform, so that all 37 tokens occur */
	s = open_sampler(&o, N);
	least = 1e9f;
	for (uint64_t p = 0; p < 2000; p++) {
		float got = l[sampler_draw_from(s, 0, l, NULL, 0, 0, p)];

		least = got < least ? got : least;
	}
	assert_close(least, sorted[36], 0, "the 37th largest");
	sampler_close(s);
}

static void test_bad_options(void **state)
{
	struct sampler_opts o = sampler_defaults;
	struct sampler *s;
	struct err e = { 0 };

	o.temperature = -1;
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(strstr(e.text, "temperature"));
	o = sampler_defaults;
	o.top_p = 0;
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(strstr(e.text, "top-p"));
	o = sampler_defaults;
	o.min_p = NAN;
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(strstr(e.text, "min-p"));
	o = sampler_defaults;
	o.repeat_penalty = 0;
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(
		strstr(e.text, "repetition penalty is 0, must be more than 0"));
	o.repeat_penalty = INFINITY;
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(strstr(e.text, "repetition penalty is inf"));
	o = sampler_defaults;
	o.n_bias = 1;
	o.bias = &(const struct token_bias){ V, 1 };
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(strstr(e.text, "token 8, which is not in"));
	o.bias = &(const struct token_bias){ -1, 1 };
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	o.bias = &(const struct token_bias){ 0, 101 };
	assert_true(sampler_open(&s, &o, V, &e) < 0);
	assert_non_null(strstr(e.text, "is 101, must be -100 to 100"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_temperature_one),
	cmocka_unit_test(test_temperatures),
	cmocka_unit_test(test_top_k),
	cmocka_unit_test(test_top_p),
	cmocka_unit_test(test_min_p),
	cmocka_unit_test(test_filters_in_order),
	cmocka_unit_test(test_greedy),
	cmocka_unit_test(test_by_position),
	cmocka_unit_test(test_repetition_penalty),
	cmocka_unit_test(biases_are_added_before_the_choice),
	cmocka_unit_test(generated_tokens_are_penalized_as_often_as_they_occur),
	cmocka_unit_test(test_large_vocabulary),
	cmocka_unit_test(test_bad_options),
};

TEST_FILE(tests)
