/* Compares costs of the host's work with sums computed by hand. A core of 1 GHz
 * with 10 lanes does ten operations in a nanosecond. A step (a load whose
 * address is the result of the step before it) takes 5 ns. */
#include "tensor/soc/price_host.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"

#include <inttypes.h>

static const struct soc round_soc = {
	.core_hz = 1e9,
	.core_lanes = 10,
	.core_step_cycles = 5,
	.cpu_w = 4,
};

static void takes(const struct price *p, uint64_t ns, const char *what)
{
	if (p->total_ps != ns * 1000 || p->cpu_ps != p->total_ps ||
		p->energy_pj != 4 * p->total_ps)
		fail_msg("%s: %" PRIu64 " ps, %" PRIu64 " of the CPU, %" PRIu64
			 " pJ; expected %" PRIu64 " ns at 4 W",
			what, p->total_ps, p->cpu_ps, p->energy_pj, ns);
}

static void test_sweeps(void **state)
{
	struct price p;

	price_sweep(&round_soc, PRICE_SWEEP_ADD, 3, 100, &p);
	takes(&p, 30, "three rows added up");
	price_sweep(&round_soc, PRICE_SWEEP_LARGEST, 1, 100, &p);
	takes(&p, 40, "the largest");
	price_sweep(&round_soc, PRICE_SWEEP_WEIGH, 2, 50, &p);
	takes(&p, 170, "weights");
	price_sweep(&round_soc, PRICE_SWEEP_FIND, 1, 1000, &p);
	takes(&p, 200, "a place");
	price_sweep(&round_soc, PRICE_SWEEP_WEIGH, 0, 1000, &p);
	takes(&p, 0, "no row");
	price_walk(&round_soc, 7, &p);
	takes(&p, 35, "steps");
}

static void test_draws(void **state)
{
	struct price p;

	price_draw(&round_soc, 2, 1000, true, &p);
	takes(&p, 800, "the largest of two rows");
	price_draw(&round_soc, 1, 1000, false, &p);
	takes(&p, 4000, "a random token");
}

static void test_top(void **state)
{
	struct price p;

	/* All 20 values are among the 30 largest: 20 values enter a heap of
	 * depth 5. */
	price_top(&round_soc, 1, 20, 30, &p);
	takes(&p, 38 + 20 * 5 * 5, "all");
	/* 4 values enter the heap at first, and 2.8 values (4 ln 2, rounded)
	 * each time that the number of processed values doubles: ten times, so
	 * 28 values. The depth of the heap is 3. */
	price_top(&round_soc, 1, 4096, 4, &p);
	assert_int_equal(p.total_ps, 7782400 + (4 + 28) * 3 * 5000);
}

/* Longer rows, larger heaps and more rows never cost less. */
static void test_grows(void **state)
{
	struct price p, before = { 0 };

	for (uint64_t n = 1; n < 200000; n = n * 3 / 2 + 1) {
		price_top(&round_soc, 1, n, 16, &p);
		assert_true(p.total_ps > before.total_ps);
		before = p;
	}
	for (uint64_t k = 1; k <= 64; k++) {
		price_top(&round_soc, 1, 4096, k, &p);
		assert_true(k == 1 || p.total_ps > before.total_ps);
		before = p;
	}
	price_top(&round_soc, 3, 4096, 64, &p);
	assert_int_equal(p.total_ps, 3 * before.total_ps);
	price_top(&round_soc, 1, 0, 16, &p);
	takes(&p, 0, "an empty row");
}

static void test_search(void **state)
{
	const struct search_work work = {
		.steps = 3, .values = 100, .rows = 2
	};
	const struct search_work none = { 0 };
	struct price p;

	price_search(&round_soc, &work, 1000, &p);
	takes(&p, 3 * 5 + 20 + 800, "a look-up");
	price_search(&round_soc, &none, 1000, &p);
	takes(&p, 0, "no look-up");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sweeps),
	cmocka_unit_test(test_draws),
	cmocka_unit_test(test_top),
	cmocka_unit_test(test_grows),
	cmocka_unit_test(test_search),
};

TEST_FILE(tests)
