/* Areas below curves, compared with areas computed by hand. */
#include "host/bench/curve.h"
#include "tests/harness.h"

#include <math.h>

#define check_close(got, want)                                          \
	do {                                                            \
		double g = (got), w = (want);                           \
		if (fabs(g - w) > 1e-12)                                \
			fail_msg("%s is %.15g, not %.15g", #got, g, w); \
	} while (0)

static void test_trapezoids(void **state)
{
	const struct curve_point p[] = { { 4, 0.2 }, { 1, 0.8 }, { 2, 0.6 } };

	/* The curve's mean is 0.7 between x = 1 and 2, and 0.4 between 2 and 4.
	 * The order of the points has no effect. */
	check_close(curve_area(p, 3), 0.7 + 0.8);
	check_close(curve_area(p, 1), 3 * 0.2);
	check_close(curve_area(p, 0), 0);
}

static void test_before_the_first(void **state)
{
	const struct curve_point late[] = { { 3, 0.5 }, { 5, 0.5 } };
	const struct curve_point early[] = { { 0.5, 0.9 }, { 1.5, 0.7 } };
	const struct curve_point below[] = { { 0.5, 0.9 }, { 0.7, 0.7 } };

	check_close(curve_area(late, 2), 4 * 0.5);
	/* The area begins at x = 1, where the line between the points has the
	 * value 0.8. */
	check_close(curve_area(early, 2), 0.5 * 0.75);
	check_close(curve_area(below, 2), 0);
}

static void test_weights(void **state)
{
	const struct curve_point p[] = { { 3, 0.76 }, { 1, 0.8 }, { 2, 0.74 } };
	const double first = 0.8 * exp(-3 * (1 - 0.8 / 0.9));
	const double last = 0.76 * exp(-3 * (1 - 0.76 / 0.9));

	/* The accuracy at x = 2 is more than 0.05 below that at x = 1, so the
	 * point at x = 2 is not used. */
	check_close(curve_weighted_area(p, 3, 0.9), 0.8 + (first + last));
	/* A point whose accuracy exceeds `best` has the weight 1, not more. */
	check_close(curve_weighted_area(p, 3, 0.5), 0.8 + (0.8 + 0.76));
	check_close(curve_weighted_area(p, 0, 0.9), 0);
	check_close(curve_weighted_area(p, 3, 0), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_trapezoids),
	cmocka_unit_test(test_before_the_first),
	cmocka_unit_test(test_weights),
};

TEST_FILE(tests)
