/*
 * The time of a cycle (a draft and the pass that verifies it), computed from
 * its parts, in any unit. The time is compared with values by hand, for each
 * part that can limit the cycle. The estimated times by number of rows must be
 * the non-decreasing values that are nearest to the measured times. Other tests
 * check how the measured times of whole and pruned passes change the estimates.
 */
#include "host/tree/pass_cost.h"
#include "tests/harness.h"
#include "tests/host/tree/tree_draw.h"

#include <math.h>

static void test_by_hand(void **state)
{
	struct pass_cost c = { .read = 1000, .ahead = 200, .token = 10 };

	/* Flash limits the cycle. It reads ahead for 200 while no pass runs,
	 * and the logits of 5 tokens take 50 of that time, so drafting takes no
	 * additional time up to 150. */
	assert_close(pass_cost_cycle(&c, 5, 0, 100), 1000, 0, "flash");
	assert_close(pass_cost_cycle(&c, 5, 150, 100), 1000, 0, "hidden");
	assert_close(pass_cost_cycle(&c, 5, 160, 100), 1010, 0, "stands still");
	/* Computing limits the cycle and begins after drafting. */
	assert_close(pass_cost_cycle(&c, 5, 50, 1500), 1600, 0, "computing");
	/* The logits of the emitted tokens also delay the computation. */
	assert_close(pass_cost_cycle(&c, 15, 50, 1500), 1700, 0, "tokens");
	/* Half of the layers can be computed before the first streamed layer,
	 * while the staging slots are full. */
	c.before = 0.5;
	assert_close(pass_cost_cycle(&c, 5, 50, 400), 1100, 0, "resident");
	/* All weights are in memory. */
	c.read = 0;
	assert_close(pass_cost_cycle(&c, 5, 50, 400), 500, 0, "in memory");
	/* A cycle takes 30 more than its parts explain, because it also maps
	 * weights. If a cycle takes less time than its parts explain, this
	 * other time counts as 0. */
	pass_cost_saw_cycle(&c, 100, 400, 530);
	assert_close(pass_cost_cycle(&c, 5, 50, 400), 530, 0, "other time");
	pass_cost_saw_cycle(&c, 100, 400, 470);
	assert_close(pass_cost_cycle(&c, 5, 50, 400), 515, 0, "its mean");
	/* A disturbed cycle adds at most half of the time of its parts. */
	pass_cost_saw_cycle(&c, 100, 400, 9000);
	assert_close(pass_cost_cycle(&c, 5, 50, 400), 500 + 280 / 3., 1e-9,
		"disturbed");
}

static void check_look(
	const struct pass_cost *c, uint32_t most, uint32_t n, double time)
{
	double takes;

	assert_int_equal(pass_cost_look(c, most, &takes), n);
	assert_close(takes, time, 0, "looking");
}

/* Expansions of 1, 2, 4 or 8 nodes have separate averages. A size without a
 * measured time gets the time of the next smaller size that has one. */
static void test_expansion_time(void **state)
{
	struct pass_cost c = { 0 };

	check_look(&c, 100, 8, 0);
	pass_cost_saw_look(&c, 1, 10);
	check_look(&c, 1, 1, 10);
	check_look(&c, 7, 4, 10);
	pass_cost_saw_look(&c, 4, 16);
	pass_cost_saw_look(&c, 4, 14);
	pass_cost_saw_look(&c, 5, 1000);
	pass_cost_saw_look(&c, 64, 1000);
	check_look(&c, 3, 2, 10);
	check_look(&c, 4, 4, 15);
	check_look(&c, 8, 8, 15);
	pass_cost_saw_look(&c, 8, 31);
	check_look(&c, 9, 8, 31);
	check_look(&c, 1, 1, 10);
}

static void test_average(void **state)
{
	double mean = 0;
	uint32_t n = 0;

	pass_cost_see(&mean, &n, 10);
	pass_cost_see(&mean, &n, 20);
	assert_close(mean, 15, 1e-12, "mean");
	for (int i = 0; i < 100; i++)
		pass_cost_see(&mean, &n, 50);
	assert_close(mean, 50, 0.01, "moving");
}

/* The i-th of the nearest non-decreasing values: the maximum over a <= i of the
 * minimum over b >= i of the mean of x[a] to x[b]. */
static double nearest(const double *x, uint32_t n, uint32_t i)
{
	double most = -INFINITY;

	for (uint32_t a = 0; a <= i; a++) {
		double least = INFINITY;

		for (uint32_t b = i; b < n; b++) {
			double sum = 0;

			for (uint32_t k = a; k <= b; k++)
				sum += x[k];
			least = fmin(least, sum / (b - a + 1));
		}
		most = fmax(most, least);
	}
	return most;
}

static void test_never_falls(void **state)
{
	seed = harness_seed();
	for (int round = 0; round < 200; round++) {
		uint32_t n = 1 + draw(PASS_KNOTS);
		double x[PASS_KNOTS];
		struct pass_cost c = { 0 };

		for (uint32_t i = 0; i < n; i++)
			x[i] = 10 * i + 100 * unit();
		pass_cost_set(&c, pass_knot, x, n);
		for (uint32_t i = 0; i < n; i++)
			assert_close(pass_cost_rows(&c, pass_knot[i]),
				nearest(x, n, i), 1e-9, "rows");
	}
}

static void test_between(void **state)
{
	const uint32_t row[] = { 8, 16, 32 }, stair[] = { 9, 16, 17, 32 };
	const double time[] = { 10, 20, 60 };
	struct pass_cost c = { 0 };

	assert_false(pass_cost_is_known(&c));
	assert_close(pass_cost_rows(&c, 9), 0, 0, "unknown");
	pass_cost_set(&c, row, time, 3);
	assert_true(pass_cost_is_known(&c));
	assert_close(pass_cost_rows(&c, 1), 10, 0, "below");
	assert_close(pass_cost_rows(&c, 12), 15, 1e-12, "line");
	assert_close(pass_cost_rows(&c, 16), 20, 1e-12, "knot");
	assert_close(pass_cost_rows(&c, 64), 120, 1e-12, "beyond");
	/* The time rises in a step between 16 and 17 rows. */
	pass_cost_set(&c, stair, (const double[]){ 20, 20, 60, 60 }, 4);
	assert_close(pass_cost_rows(&c, 9), 20, 0, "step");
	assert_close(pass_cost_rows(&c, 16), 20, 0, "step");
	assert_close(pass_cost_rows(&c, 17), 60, 1e-12, "step");
}

static double device(double n)
{
	return 60 + 5 * n;
}

/* Add noise of up to an eighth, and in one of 20 cases a factor of ten. */
static double noisy(double x)
{
	return x * (0.875 + 0.25 * unit()) * (draw(20) ? 1 : 10);
}

static void test_learns(void **state)
{
	struct pass_cost c = { 0 };

	seed = harness_seed();
	for (int i = 0; i < 1500; i++) {
		uint32_t n = 1 + draw(250);

		pass_cost_saw_rows(&c, n, n, 1, noisy(device(n)));
	}
	for (uint32_t n = 16; n <= 250; n += 31)
		assert_close(pass_cost_rows(&c, n), device(n), 0.25 * device(n),
			"rows");
	/* The device becomes twice as slow. The estimate for the measured
	 * number of rows must follow. */
	for (int i = 0; i < 80; i++)
		pass_cost_saw_rows(&c, 100, 100, 1, 2 * device(100));
	assert_close(pass_cost_rows(&c, 100), 2 * device(100),
		0.05 * device(100), "slower");
}

/*
 * The time of a pruned pass is compared with the estimate for its mix of rows:
 * all rows before the exit layer (after which rows are pruned), and only the
 * kept rows after it. If the time and this estimate agree, no estimate changes.
 * In a comparison with the estimate for whole passes, the time saved by pruning
 * would count as a lower cost of whole passes.
 */
static void test_pruned_passes(void **state)
{
	double at[PASS_KNOTS];
	struct pass_cost c = { 0 };

	for (uint32_t i = 0; i < PASS_KNOTS; i++)
		at[i] = device(pass_knot[i]);
	pass_cost_set(&c, pass_knot, at, PASS_KNOTS);
	for (int i = 0; i < 200; i++)
		pass_cost_saw_rows(
			&c, 64, 20, 0.5, (device(64) + device(20)) / 2);
	assert_close(pass_cost_rows(&c, 64), device(64), 1e-6, "all");
	assert_close(pass_cost_rows(&c, 20), device(20), 1e-6, "kept");
	/* If the measured time differs, the estimate for the mix converges to
	 * the measured time. */
	for (int i = 0; i < 200; i++)
		pass_cost_saw_rows(&c, 64, 20, 0.5, 500);
	assert_close((pass_cost_rows(&c, 64) + pass_cost_rows(&c, 20)) / 2, 500,
		5, "both");
}

/* After the first pass, half of its time is assumed to be constant and half to
 * be proportional to rows. */
static void test_first_estimate(void **state)
{
	struct pass_cost c = { 0 };

	pass_cost_begin(&c, 32, 100);
	assert_close(pass_cost_rows(&c, 32), 100, 1e-9, "seen");
	assert_close(pass_cost_rows(&c, 64), 150, 1e-9, "twice the rows");
	assert_close(pass_cost_rows(&c, 16), 75, 1e-9, "half of them");
}

/* A stored profile that states `of` times the device's real times. */
static struct pass_cost wrong(double of)
{
	struct pass_cost c = { 0 };
	double at[PASS_KNOTS];

	for (uint32_t i = 0; i < PASS_KNOTS; i++)
		at[i] = of * device(pass_knot[i]);
	pass_cost_set(&c, pass_knot, at, PASS_KNOTS);
	pass_cost_remembered(&c);
	return c;
}

static void saw(struct pass_cost *c, uint32_t n, double of)
{
	pass_cost_saw_rows(c, n, n, 1, of * device(n));
}

static void check_right(const struct pass_cost *c, uint32_t n, double within)
{
	assert_close(
		pass_cost_rows(c, n), device(n), within * device(n), "rows");
}

/* A profile that was measured on a busy machine states too long times. A few
 * passes with 12 rows correct the times of all row counts. */
static void test_corrects_wrong_profile(void **state)
{
	struct pass_cost c = wrong(3);

	for (int i = 0; i < 4; i++)
		saw(&c, 12, 1);
	for (uint32_t n = 1; n <= 256; n += 15)
		check_right(&c, n, 0.25);
	for (int i = 0; i < 6; i++)
		saw(&c, 12, 1);
	check_right(&c, 12, 0.15);
}

/* One disturbed pass among the first ones is outweighed by the other passes. */
static void test_disturbed_once(void **state)
{
	for (int which = 0; which < 4; which++) {
		struct pass_cost c = wrong(1);

		for (int i = 0; i < 4; i++)
			saw(&c, 40, i == which ? 10 : 1);
		for (uint32_t n = 1; n <= 256; n += 15)
			check_right(&c, n, 0.1);
	}
}

/* A stored profile also has times other than those of passes: per token, and
 * per expansion. These times get little weight too, so that new measurements
 * soon outweigh them. */
static void test_profile_has_little_weight(void **state)
{
	struct pass_cost c = { .token = 30 };

	c.n_token = c.n_look[1] = PASS_MEMORY;
	pass_cost_remembered(&c);
	assert_int_equal(c.n_look[0], 0);
	assert_int_equal(c.n_look[1], PASS_BEFORE);
	for (int i = 0; i < 4; i++)
		pass_cost_see(&c.token, &c.n_token, 10);
	assert_close(c.token, 10 + 20. * 2 / 6, 1e-9, "as two of six");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_by_hand),
	cmocka_unit_test(test_expansion_time),
	cmocka_unit_test(test_average),
	cmocka_unit_test(test_never_falls),
	cmocka_unit_test(test_between),
	cmocka_unit_test(test_learns),
	cmocka_unit_test(test_pruned_passes),
	cmocka_unit_test(test_first_estimate),
	cmocka_unit_test(test_corrects_wrong_profile),
	cmocka_unit_test(test_disturbed_once),
	cmocka_unit_test(test_profile_has_little_weight),
};

TEST_FILE(tests)
