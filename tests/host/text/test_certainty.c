/*
 * Measures of certainty of a row of logits, compared with values that the test
 * computes in long double from the probability of each token. The test finds
 * the likeliest tokens by sorting.
 */
#include "base/rng.h"
#include "host/text/certainty.h"
#include "tests/harness.h"

#include <math.h>
#include <stdlib.h>

#define MOST 5000

static long double p[MOST];
static float logits[MOST];

static int falling(const void *a, const void *b)
{
	long double x = *(const long double *)a, y = *(const long double *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

static struct certainty by_definition(uint32_t n, int32_t token, unsigned top)
{
	struct certainty c = { 0 };
	long double sum = 0, kl = 0, mean = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += p[i] = expl((long double)logits[i]);
	for (uint32_t i = 0; i < n; i++) {
		p[i] /= sum;
		kl -= logl(p[i] * n) / n;
	}
	c.logprob = (double)logl(p[token]);
	c.self = (double)kl;
	qsort(p, n, sizeof(*p), falling);
	top = top < n ? top : n;
	for (unsigned i = 0; i < top; i++)
		mean -= logl(p[i]) / top;
	c.confidence = (double)mean;
	return c;
}

static void check(uint32_t n, int32_t token, unsigned top)
{
	struct certainty c, want = by_definition(n, token, top);

	certainty_of(&c, logits, n, token, top);
	assert_close(c.logprob, want.logprob, 1e-5, "log-probability");
	assert_close(c.self, want.self, 1e-5, "self-certainty");
	assert_close(c.confidence, want.confidence, 1e-5, "confidence");
}

static void test_definition(void **state)
{
	static const uint32_t size[] = { 1, 2, 17, 64, 1000, MOST };
	uint64_t seed = harness_seed(), at = 0;

	for (unsigned k = 0; k < 6; k++)
		for (unsigned round = 0; round < 20; round++) {
			uint32_t n = size[k];
			double u = rng_uniform(seed, 1, at);

			for (uint32_t i = 0; i < n; i++)
				logits[i] = (float)(30 *
					(rng_uniform(seed, 2, at++) - .5));
			check(n, (int32_t)(u * n), 1 + round % CERTAINTY_TOP);
			check(n, (int32_t)n - 1, 20);
		}
}

/* Equal logits give the lowest certainty. One logit that is much larger than
 * all others gives the highest. */
static void test_extremes(void **state)
{
	struct certainty c;

	for (unsigned i = 0; i < 1000; i++)
		logits[i] = -3;
	certainty_of(&c, logits, 1000, 7, 20);
	assert_close(c.self, 0, 1e-5, "self-certainty of equals");
	assert_close(c.logprob, -log(1000), 1e-5, "log-probability");
	assert_close(c.confidence, log(1000), 1e-5, "confidence");
	logits[7] = 200;
	certainty_of(&c, logits, 1000, 7, 20);
	assert_close(c.logprob, 0, 1e-5, "log-probability");
	assert_true(c.self > 190 && c.confidence > 190);
}

static void test_no_numbers(void **state)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY };
	struct certainty c;

	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 0; i < 100; i++)
			logits[i] = (float)i;
		logits[50] = odd[k];
		certainty_of(&c, logits, 100, 3, 20);
		assert_true(c.logprob == 0 && c.self == 0 && c.confidence == 0);
	}
	logits[50] = 0;
	certainty_of(&c, logits, 100, -1, 20);
	assert_true(c.logprob == 0 && c.self == 0 && c.confidence == 0);
	certainty_of(&c, logits, 100, 100, 20);
	assert_true(c.logprob == 0 && c.self == 0 && c.confidence == 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_definition),
	cmocka_unit_test(test_extremes),
	cmocka_unit_test(test_no_numbers),
};

TEST_FILE(tests)
