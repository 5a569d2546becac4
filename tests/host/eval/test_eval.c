/* The figures that an evaluation reports: accuracy, its interval, and the test
 * that compares two runs. tests/cli/eval.sh runs whole evaluations. */
#include "base/checked.h"
#include "host/eval/eval.h"
#include "tests/harness.h"

#include <math.h>

static void test_accuracy(void **state)
{
	static const struct eval_tally none = { 0, 0 }, some = { 3, 8 };

	assert_close(eval_accuracy(&none), 0, 0, "of none");
	assert_close(eval_accuracy(&some), 0.375, 0, "3 of 8");
}

/* Compare the intervals with those that another program computed. */
static void test_interval(void **state)
{
	static const struct {
		struct eval_tally tally;
		double low, high;
	} known[] = {
		{ { 8, 10 }, 0.490162, 0.943318 },
		{ { 0, 10 }, 0, 0.277533 },
		{ { 10, 10 }, 0.722467, 1 },
		{ { 0, 1 }, 0, 0.793451 },
		{ { 100, 200 }, 0.431361, 0.568639 },
		{ { 0, 0 }, 0, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		double low, high;

		eval_interval(&known[i].tally, &low, &high);
		assert_close(low, known[i].low, 1e-6, "low");
		assert_close(high, known[i].high, 1e-6, "high");
	}
}

/*
 * The bounds of the interval are, by definition, the shares p from which the
 * measured share is 1.96 standard deviations sqrt(p (1 - p) / n) away.
 */
static void test_interval_bounds(void **state)
{
	for (uint64_t n = 1; n < 300; n = n * 3 + 1) {
		for (uint64_t right = 1; right < n; right++) {
			struct eval_tally t = { right, n };
			double p = (double)right / (double)n, low, high;

			eval_interval(&t, &low, &high);
			assert_true(low > 0 && low < p && p < high && high < 1);
			assert_close(
				(p - low) / sqrt(low * (1 - low) / (double)n),
				1.959964, 1e-5, "low");
			assert_close((high - p) /
					sqrt(high * (1 - high) / (double)n),
				1.959964, 1e-5, "high");
		}
	}
}

/* Compare the p-values with exact sums of binomial coefficients. */
static void test_mcnemar(void **state)
{
	static const struct {
		uint64_t a_only, b_only;
		double p;
	} known[] = {
		{ 0, 0, 1 },
		{ 5, 5, 1 },
		{ 0, 5, 0.0625 },
		{ 1, 9, 0.021484375 },
		{ 10, 2, 0.03857421875 },
		{ 30, 60, 0.00206026568096 },
		{ 150, 203, 0.00557018200301 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		assert_close(eval_mcnemar(known[i].a_only, known[i].b_only),
			known[i].p, 1e-9, "p");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_accuracy),
	cmocka_unit_test(test_interval),
	cmocka_unit_test(test_interval_bounds),
	cmocka_unit_test(test_mcnemar),
};

TEST_FILE(tests)
