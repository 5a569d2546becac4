#include "tests/harness.h"

#include "base/checked.h"
#include "base/rng.h"

/* Returns a number near a power of two. With such numbers, an overflow check
 * that compares wrongly gives a wrong result. */
static uint64_t near_edge(uint64_t seed, uint64_t i)
{
	uint32_t w[4];

	rng_words(seed, 1, i, w);
	return ((uint64_t)1 << w[0] % 64) + w[1] % 5 - 2;
}

static void add_and_mul(void **state)
{
	uint64_t seed = harness_seed();

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t a = near_edge(seed, 2 * i);
		uint64_t b = near_edge(seed, 2 * i + 1);
		unsigned __int128 sum = (unsigned __int128)a + b;
		unsigned __int128 product = (unsigned __int128)a * b;
		size_t got = 12345;

		assert_int_equal(size_add(&got, a, b), sum > SIZE_MAX);
		assert_int_equal(got, sum > SIZE_MAX ? 12345 : (size_t)sum);
		got = 54321;
		assert_int_equal(size_mul(&got, a, b), product > SIZE_MAX);
		assert_int_equal(
			got, product > SIZE_MAX ? 54321 : (size_t)product);
	}
}

static void ranges(void **state)
{
	uint64_t seed = harness_seed();

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t off = near_edge(seed, 3 * i);
		uint64_t len = near_edge(seed, 3 * i + 1);
		uint64_t total = near_edge(seed, 3 * i + 2);

		assert_int_equal(range_within(off, len, total),
			(unsigned __int128)off + len <= total);
	}
	assert_true(range_within(0, 0, 0));
	assert_true(range_within(5, 0, 5));
	assert_false(range_within(6, 0, 5));
	assert_false(range_within(UINT64_MAX, 2, 10));
}

static void alignment(void **state)
{
	assert_int_equal(align_up(0, 64), 0);
	assert_int_equal(align_up(1, 64), 64);
	assert_int_equal(align_up(64, 64), 64);
	assert_int_equal(align_up(65, 64), 128);
	assert_int_equal(align_up(7, 1), 7);
	assert_false(is_pow2(0));
	assert_true(is_pow2(1));
	assert_true(is_pow2((uint64_t)1 << 63));
	assert_false(is_pow2(((uint64_t)1 << 63) + 1));
	assert_false(is_pow2(6));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(add_and_mul),
	cmocka_unit_test(ranges),
	cmocka_unit_test(alignment),
};

TEST_FILE(tests)
