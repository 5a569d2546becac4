#include "base/median.h"
#include "tests/harness.h"

static void test_by_hand(void **state)
{
	const double x[] = { 3, -1, 10, 2 };

	assert_true(median(x, 1) == 3);
	assert_true(median(x, 2) == 1);
	assert_true(median(x, 3) == 3);
	assert_true(median(x, 4) == 2.5);
	assert_true(x[0] == 3 && x[1] == -1 && x[2] == 10 && x[3] == 2);
}

/* One outlier moves the median at most to a neighboring sample. */
static void test_many(void **state)
{
	double x[MEDIAN_MOST];

	for (unsigned i = 0; i < MEDIAN_MOST; i++)
		x[i] = (i * 37) % MEDIAN_MOST;
	assert_true(median(x, MEDIAN_MOST) == (MEDIAN_MOST - 1) / 2.);
	x[17] = 1e300;
	assert_true(median(x, MEDIAN_MOST) <= MEDIAN_MOST / 2. + 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_by_hand),
	cmocka_unit_test(test_many),
};

TEST_FILE(tests)
