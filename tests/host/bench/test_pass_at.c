/*
 * pass@k compared with a count over all subsets of k among n samples, and with
 * the mean over random subsets.
 */
#include "host/bench/pass_at.h"
#include "tests/harness.h"

/* Share of the subsets of k among n samples that contain at least one of the
 * first c. */
static double by_counting(uint32_t n, uint32_t c, uint32_t k)
{
	uint32_t sets = 0, right = 0;

	for (uint32_t set = 0; set < 1u << n; set++) {
		if ((uint32_t)__builtin_popcount(set) != k)
			continue;
		sets++;
		right += (set & ((1u << c) - 1)) != 0;
	}
	return (double)right / sets;
}

static void test_all_sets(void **state)
{
	for (uint32_t n = 1; n <= 10; n++)
		for (uint32_t c = 0; c <= n; c++)
			for (uint32_t k = 1; k <= n; k++)
				assert_close(pass_at(n, c, k),
					by_counting(n, c, k), 1e-12, "pass@k");
}

/* The binomial coefficients of these numbers do not fit in a double. */
static void test_many(void **state)
{
	assert_close(pass_at(1024, 1, 512), 0.5, 1e-12, "half of them");
	assert_close(pass_at(1024, 0, 1024), 0, 0, "none is right");
	assert_close(pass_at(1024, 1, 1024), 1, 0, "all are taken");
	assert_close(pass_at(1000, 100, 1), 0.1, 1e-12, "pass@1");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_all_sets),
	cmocka_unit_test(test_many),
};

TEST_FILE(tests)
