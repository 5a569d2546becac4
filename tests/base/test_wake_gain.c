/*
 * Bursts of a simulated machine, on which waking the threads costs a fixed time
 * and halves the rest: the faster way must be found for each amount of work,
 * and found again when the machine changes.
 */
#include "base/wake_gain.h"
#include "tests/harness.h"

#include <string.h>

/* Simulate n bursts. Returns how many of them woke the threads. */
static unsigned bursts(
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
	const unsigned group = WAKE_GAIN_GROUP, n = group * WAKE_GAIN_AGAIN;
	const unsigned first = group * WAKE_GAIN_FIRST;
	struct wake_gain g = { 0 };

	/* 2^20 and 2^24 take 66 us and 1 ms alone */
	assert_int_equal(bursts(&g, 1 << 20, 50000, first), first / 2);
	assert_int_equal(bursts(&g, 1 << 24, 50000, first), first / 2);
	assert_int_equal(bursts(&g, 1 << 20, 50000, n - first), group);
	/* waking takes 55 % of the time and is seldom left out */
	assert_int_equal(bursts(&g, 1 << 24, 50000, n - first), n - first);
	assert_int_equal(bursts(&g, 1 << 24, 50000, 7 * n), 7 * n - group);
	/* waking becomes cheap, and expensive again */
	bursts(&g, 1 << 20, 1000, 40 * n);
	assert_true(bursts(&g, 1 << 20, 1000, n) >= n - group);
	bursts(&g, 1 << 20, 50000, 4 * n);
	assert_int_equal(bursts(&g, 1 << 20, 50000, n), group);
}

/* A burst that was preempted for long does not change the choice. */
static void ignores_a_preemption(void **state)
{
	const unsigned n = WAKE_GAIN_GROUP * WAKE_GAIN_AGAIN;
	struct wake_gain g = { 0 };

	bursts(&g, 1 << 20, 1000, 10 * n);
	for (int i = 0; i < 2; i++) {
		while (!wake_gain_begin(&g, 1 << 20) || !g.counts)
			;
		wake_gain_end(&g, 1 << 20, 100000000);
	}
	assert_true(bursts(&g, 1 << 20, 1000, n) >= n - 2 * WAKE_GAIN_GROUP);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(finds_the_faster_way),
	cmocka_unit_test(ignores_a_preemption),
};

TEST_FILE(tests)
