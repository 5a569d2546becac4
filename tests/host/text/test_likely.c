/*
 * The likeliest tokens of a row of logits and their probabilities, compared
 * with a sort of all tokens and with a softmax in long double.
 */
#include "base/rng.h"
#include "host/text/likely.h"
#include "tests/harness.h"

#include <math.h>
#include <stdlib.h>

#define MOST 3000

static float logits[MOST];
static int32_t order[MOST];

static int falling(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	if (logits[x] != logits[y])
		return logits[x] < logits[y] ? 1 : -1;
	return x < y ? -1 : 1;
}

static void check(uint32_t n, unsigned most, uint64_t seed)
{
	int32_t token = (int32_t)(rng_uniform(seed, 1, 0) * n);
	struct likely top[LIKELY_TOP];
	long double sum = 0;
	float logprob;
	unsigned got;

	/* logits with many equal values */
	for (uint32_t i = 0; i < n; i++) {
		logits[i] = floorf((float)rng_uniform(seed, 0, i) * 40) / 2;
		sum += expl((long double)logits[i]);
		order[i] = (int32_t)i;
	}
	qsort(order, n, sizeof(*order), falling);
	got = likely_of(logits, n, token, most, top, &logprob);
	assert_int_equal(got, most < n ? most : n);
	assert_close((double)logprob, (double)(logits[token] - logl(sum)), 1e-5,
		"log-probability");
	for (unsigned i = 0; i < got; i++) {
		assert_int_equal(top[i].id, order[i]);
		assert_close((double)top[i].logprob,
			(double)(logits[order[i]] - logl(sum)), 1e-5, "top");
	}
}

static void test_rows(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 19, 20, 21, 300, MOST };

	for (uint64_t seed = 0; seed < 70; seed++)
		check(sizes[seed % 7], (unsigned)(seed % (LIKELY_TOP + 1)),
			seed);
}

static void test_nothing(void **state)
{
	struct likely top[LIKELY_TOP];
	float none[3] = { NAN, -INFINITY, NAN }, logprob = 1;

	assert_int_equal(likely_of(none, 3, 0, 2, top, &logprob), 0);
	assert_true(isnan(logprob));
	none[2] = 1;
	assert_int_equal(likely_of(none + 2, 1, 1, 2, top, &logprob), 0);
	assert_true(isnan(logprob));
	assert_int_equal(likely_of(none + 2, 1, -1, 2, top, &logprob), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_rows),
	cmocka_unit_test(test_nothing),
};

TEST_FILE(tests)
