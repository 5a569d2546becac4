/*
 * Series of bursts on a simulated machine, on which waking the threads costs a
 * fixed time and halves the rest: the faster way must be found for each amount
 * of work, and found again when the machine changes.
 */
#include "base/wake_gain.h"
#include "tests/harness.h"

#include <string.h>

/* Simulate n series of one burst each. Returns how many of them woke the
 * threads. */
static unsigned series(
	struct wake_gain *g, uint64_t work, uint64_t wake_ns, unsigned n)
{
	unsigned woken = 0;

	for (unsigned i = 0; i < n; i++) {
		bool wakes = wake_gain_begin(g, work);

		woken += wakes;
		wake_gain_end(g, work, wakes ? wake_ns + work / 32 : work / 16);
	}
	return woken;
}

static void finds_the_faster_way(void **state)
{
	const unsigned first = WAKE_GAIN_FIRST, n = WAKE_GAIN_AGAIN;
	struct wake_gain g = { 0 };

	/* 2^20 and 2^24 take 66 us and 1 ms alone */
	assert_int_equal(series(&g, 1 << 20, 50000, first), first / 2);
	assert_int_equal(series(&g, 1 << 24, 50000, first), first / 2);
	assert_int_equal(series(&g, 1 << 20, 50000, n - first), 1);
	/* waking takes 55 % of the time and is seldom left out */
	assert_int_equal(series(&g, 1 << 24, 50000, n - first), n - first);
	assert_int_equal(series(&g, 1 << 24, 50000, 7 * n), 7 * n - 1);
	/* waking becomes cheap, and expensive again */
	series(&g, 1 << 20, 1000, 40 * n);
	assert_true(series(&g, 1 << 20, 1000, n) >= n - 1);
	series(&g, 1 << 20, 50000, 4 * n);
	assert_int_equal(series(&g, 1 << 20, 50000, n), 1);
}

/* A burst that was preempted for long does not change the choice. */
static void ignores_a_preemption(void **state)
{
	const unsigned n = WAKE_GAIN_AGAIN;
	struct wake_gain g = { 0 };

	series(&g, 1 << 20, 1000, 10 * n);
	for (int i = 0; i < 2; i++) {
		while (!wake_gain_begin(&g, 1 << 20))
			;
		wake_gain_end(&g, 1 << 20, 100000000);
	}
	assert_true(series(&g, 1 << 20, 1000, n) >= n - 2);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(finds_the_faster_way),
	cmocka_unit_test(ignores_a_preemption),
};

TEST_FILE(tests)
