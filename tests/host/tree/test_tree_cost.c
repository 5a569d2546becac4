/*
 * The estimated cost of a cycle (a draft and the pass that verifies it),
 * compared with values that the test computes separately for every shape
 * (number of rows and leaves).
 */
#include "base/rng.h"
#include "host/tree/tree_cost.h"
#include "tests/harness.h"

#include <math.h>
#include <stdbool.h>

static uint64_t seed, drawn;

static double draw(void)
{
	return rng_uniform(seed, 4, drawn++);
}

static uint32_t pick(uint32_t most)
{
	return 1 + (uint32_t)(draw() * most);
}

/* The observed shapes and their costs. */
struct seen {
	uint32_t n;
	struct {
		uint32_t rows, leaves;
		double time;
	} at[200];
};

static bool has(const struct seen *s, uint32_t rows, uint32_t leaves)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->at[i].rows == rows && s->at[i].leaves == leaves)
			return true;
	return false;
}

static void see(struct cost *c, struct seen *s, uint32_t rows, uint32_t leaves,
	double time)
{
	cost_saw_verify(c, rows, leaves, time);
	s->at[s->n].rows = rows;
	s->at[s->n].leaves = leaves;
	s->at[s->n++].time = time;
}

/* The largest observed cost of shapes that are no larger in rows and leaves; 0
 * if there is none. */
static double most_below(const struct seen *s, uint32_t rows, uint32_t leaves)
{
	double most = 0;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->at[i].rows <= rows && s->at[i].leaves <= leaves)
			most = fmax(most, s->at[i].time);
	return most;
}

/* The smallest most_below() of the observed shapes that are no smaller in rows
 * and leaves; INFINITY if there is no such shape. */
static double least_above(const struct seen *s, uint32_t rows, uint32_t leaves)
{
	double least = INFINITY;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->at[i].rows >= rows && s->at[i].leaves >= leaves)
			least = fmin(least,
				most_below(s, s->at[i].rows, s->at[i].leaves));
	return least;
}

static void test_nothing_seen(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	assert_close(cost_draft(&c), 0, 0, "draft");
	assert_close(cost_verify(&c, 1, 1), 0, 0, "verify");
	assert_close(cost_verify(&c, 1000, 1000), 0, 0, "verify");
	cost_saw_draft(&c, 0, 5);
	assert_close(cost_draft(&c), 0, 0, "nothing was expanded");
}

static void test_averages(void **state)
{
	static struct cost c;
	double mean;

	cost_init(&c, 1);
	cost_saw_draft(&c, 4, 40);
	assert_close(cost_draft(&c), 10, 0, "the first");
	cost_saw_draft(&c, 1, 20);
	assert_close(cost_draft(&c), 15, 1e-12, "of two");
	for (int i = 3; i <= 10; i++)
		cost_saw_draft(&c, 2, 30);
	assert_close(cost_draft(&c), 15, 1e-12, "of ten");
	cost_saw_draft(&c, 1, 115);
	assert_close(cost_draft(&c), 25, 1e-12, "moves by a tenth");

	cost_saw_verify(&c, 3, 2, 100);
	cost_saw_verify(&c, 3, 2, 300);
	assert_close(cost_verify(&c, 3, 2), 200, 1e-12, "of two");
	for (mean = 200; mean < 999;) {
		cost_saw_verify(&c, 3, 2, 1000);
		assert_true(cost_verify(&c, 3, 2) > mean);
		mean = cost_verify(&c, 3, 2);
	}
}

static void test_one_seen(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	cost_saw_verify(&c, 8, 3, 77);
	for (uint32_t rows = 1; rows <= COST_ROWS; rows++)
		for (uint32_t leaves = 1; leaves <= COST_LEAVES; leaves++)
			assert_close(cost_verify(&c, rows, leaves), 77, 0,
				"all there is");
}

/* Until a smaller shape is observed, half of a larger shape's cost is assumed
 * to be proportional to rows. */
static void test_smaller_is_cheaper(void **state)
{
	static struct cost c;

	cost_init(&c, 0.5);
	cost_saw_verify(&c, 8, 3, 80);
	assert_close(cost_verify(&c, 8, 3), 80, 0, "seen");
	assert_close(cost_verify(&c, 12, 4), 80, 0, "larger");
	assert_close(cost_verify(&c, 4, 1), 60, 1e-9, "half the rows");
	assert_close(cost_verify(&c, 4, 3), 60, 1e-9, "and as many leaves");
	assert_close(cost_verify(&c, 1, 1), 45, 1e-9, "one row");
	cost_saw_verify(&c, 2, 1, 76);
	assert_close(cost_verify(&c, 2, 1), 76, 0, "seen");
	assert_true(cost_verify(&c, 4, 2) >= 76 && cost_verify(&c, 4, 2) <= 80);
	assert_close(cost_verify(&c, 1, 1), 57, 1e-9, "one row of two");
}

static void test_slopes_by_hand(void **state)
{
	static struct cost c;

	/* Costs are 100 for 1 row, 282 for 8 and 490 for 16: 26 for each
	 * additional row. Estimates add a tenth to this slope: 28.6. */
	cost_init(&c, 1);
	cost_saw_verify(&c, 16, 1, 490);
	cost_saw_verify(&c, 8, 1, 282);
	cost_saw_verify(&c, 1, 1, 100);
	assert_close(cost_verify(&c, 8, 1), 282, 1e-9, "seen");
	assert_close(cost_verify(&c, 24, 1), 490 + 8 * 28.6, 1e-3, "beyond");
	assert_close(cost_verify(&c, 24, 9), 490 + 8 * 28.6, 1e-3, "leaves");
	assert_close(cost_verify(&c, 3, 1), 100 + 2 * 28.6, 1e-3, "between");
	assert_close(cost_verify(&c, 7, 1), 100 + 6 * 28.6, 1e-3, "between");
	assert_close(cost_verify(&c, 15, 1), 282 + 7 * 28.6, 1e-3, "between");
	/* An additional leaf costs 5; estimates add a tenth. */
	cost_saw_verify(&c, 16, 5, 510);
	assert_close(cost_verify(&c, 16, 7), 510 + 2 * 5.5, 1e-3, "leaves");
	assert_close(cost_verify(&c, 16, 3), 490 + 2 * 5.5, 1e-3, "leaves");
	assert_close(
		cost_verify(&c, 18, 7), 510 + 2 * 28.6 + 2 * 5.5, 1e-3, "both");
}

/* The observed slopes are 10, 20 ... 80. Their upper quartile is 70, and the
 * estimate adds a tenth: 77. */
static void test_upper_quartile(void **state)
{
	static struct cost c;
	double time = 100;

	cost_init(&c, 1);
	for (uint32_t rows = 1; rows <= 9; rows++) {
		cost_saw_verify(&c, rows, 1, time);
		time += rows * 10;
	}
	time -= 90;
	assert_close(cost_verify(&c, 10, 1), time + 77, 1e-3, "beyond");
}

/* An estimate by slope is limited by the cost of a larger shape that was
 * observed. */
static void test_between_steps(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	cost_saw_verify(&c, 1, 1, 100);
	cost_saw_verify(&c, 2, 1, 190);
	cost_saw_verify(&c, 8, 1, 200);
	assert_close(cost_verify(&c, 3, 1), 200, 0, "below the next step");
	assert_close(cost_verify(&c, 7, 1), 200, 0, "below the next step");
	assert_close(cost_verify(&c, 9, 1), 200 + 99, 1e-3, "beyond");
}

/* The cost of an additional row is derived from two shapes that differ in
 * leaves too: 40 for 4 rows, so 10, and a tenth more. */
static void test_slope_across_leaves(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	cost_saw_verify(&c, 4, 2, 100);
	cost_saw_verify(&c, 8, 3, 140);
	assert_close(cost_verify(&c, 10, 4), 100 + 6 * 11, 1e-3,
		"no less than with two leaves");
	assert_close(cost_verify(&c, 8, 9), 140, 1e-9, "leaves");
}

/* Estimate shapes with more rows and fewer leaves than an observed shape, or
 * with fewer rows and more leaves. */
static void test_neither_smaller_nor_larger(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	cost_saw_verify(&c, 4, 3, 100);
	cost_saw_verify(&c, 8, 3, 140);
	cost_saw_verify(&c, 8, 4, 150);
	assert_close(cost_verify(&c, 10, 1), 140 + 2 * 11, 1e-3, "rows");
	assert_close(cost_verify(&c, 2, 6), 150 + 2 * 11, 1e-3, "leaves");
}

static void test_large_shapes(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	cost_saw_verify(&c, 4, 2, 100);
	cost_saw_verify(&c, COST_ROWS + 9, COST_LEAVES + 9, 900);
	assert_close(cost_verify(&c, COST_ROWS, COST_LEAVES), 900, 0, "last");
	assert_close(cost_verify(&c, 100000, COST_LEAVES), 900, 0, "last");
	assert_close(cost_verify(&c, 4, 2), 100, 0, "first");
}

static void check_table(const struct cost *c, const struct seen *s)
{
	for (uint32_t n = 1; n <= COST_ROWS; n++)
		for (uint32_t l = 1; l <= COST_LEAVES; l++) {
			double got = cost_verify(c, n, l);
			double low = most_below(s, n, l);
			double high = least_above(s, n, l);

			assert_true(n == 1 || got >= cost_verify(c, n - 1, l));
			assert_true(l == 1 || got >= cost_verify(c, n, l - 1));
			assert_true(got >= low);
			assert_true(got <= high);
			if (has(s, n, l))
				assert_close(got, low, 0, "seen");
			if (low <= 0 && isfinite(high))
				assert_close(got, high, 0, "only larger");
			assert_true(isfinite(got));
		}
}

/* The estimates equal the test's own values for any observations, even if cost
 * falls with size. */
static void test_random_tables(void **state)
{
	static struct cost c;

	seed = harness_seed();
	for (int round = 0; round < 20; round++) {
		struct seen s = { 0 };
		uint32_t most_rows = pick(COST_ROWS);
		uint32_t most_leaves = pick(COST_LEAVES);
		double noise = draw() < 0.5 ? 0 : 500 * draw();
		uint32_t n = pick(25);

		cost_init(&c, 1);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t rows = pick(most_rows);
			uint32_t leaves = pick(most_leaves);

			if (!has(&s, rows, leaves))
				see(&c, &s, rows, leaves,
					900 + 90 * ceil(rows / 8.) +
						3 * leaves + noise * draw());
		}
		check_table(&c, &s);
	}
}

/* If all shapes are observed and no cost falls with size, each estimate equals
 * the observed cost. */
static void test_full_table(void **state)
{
	static struct cost c;

	cost_init(&c, 1);
	for (uint32_t n = 16; n; n--)
		for (uint32_t l = 1; l <= n; l++)
			cost_saw_verify(&c, n, l, 10 * ceil(n / 4.) + l);
	for (uint32_t n = 16; n; n--)
		for (uint32_t l = 1; l <= n; l++)
			assert_close(cost_verify(&c, n, l),
				10 * ceil(n / 4.) + l, 0, "seen");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_nothing_seen),
	cmocka_unit_test(test_averages),
	cmocka_unit_test(test_one_seen),
	cmocka_unit_test(test_smaller_is_cheaper),
	cmocka_unit_test(test_slopes_by_hand),
	cmocka_unit_test(test_upper_quartile),
	cmocka_unit_test(test_between_steps),
	cmocka_unit_test(test_slope_across_leaves),
	cmocka_unit_test(test_neither_smaller_nor_larger),
	cmocka_unit_test(test_large_shapes),
	cmocka_unit_test(test_random_tables),
	cmocka_unit_test(test_full_table),
};

TEST_FILE(tests)
