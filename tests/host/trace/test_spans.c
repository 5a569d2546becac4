/* Sets of time intervals, compared with an array that has an entry for each
 * moment. */
#include "base/rng.h"
#include "host/trace/spans.h"
#include "tests/harness.h"

#include <stdbool.h>
#include <string.h>

#define MOMENTS 200

static uint32_t draw(uint64_t seed, uint64_t stream, uint32_t i, uint32_t n)
{
	return (uint32_t)(rng_uniform(seed, stream, i) * n);
}

/* Draw random intervals, and mark the moments that they contain. */
static void some(struct spans *s, bool at[MOMENTS], uint64_t seed, uint64_t k)
{
	uint32_t n = draw(seed, k, 0, 12);

	memset(at, 0, MOMENTS * sizeof(*at));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t from = draw(seed, k, 2 * i + 1, MOMENTS);
		uint32_t to = from + draw(seed, k, 2 * i + 2, 40);

		to = to < MOMENTS ? to : MOMENTS;
		assert_int_equal(spans_add(s, from, to), 0);
		for (uint32_t m = from; m < to; m++)
			at[m] = true;
	}
	spans_join(s);
}

static uint64_t count(const bool at[MOMENTS])
{
	uint64_t n = 0;

	for (unsigned i = 0; i < MOMENTS; i++)
		n += at[i];
	return n;
}

static void test_random(void **state)
{
	uint64_t seed = harness_seed();

	for (uint64_t k = 0; k < 2000; k++) {
		struct spans a = { 0 }, b = { 0 }, left = { 0 };
		bool in_a[MOMENTS], in_b[MOMENTS], both[MOMENTS], rest[MOMENTS];

		some(&a, in_a, seed, 2 * k);
		some(&b, in_b, seed, 2 * k + 1);
		for (unsigned i = 0; i < MOMENTS; i++) {
			both[i] = in_a[i] && in_b[i];
			rest[i] = in_a[i] && !in_b[i];
		}
		assert_int_equal(spans_length(&a), count(in_a));
		assert_int_equal(spans_common(&a, &b), count(both));
		assert_int_equal(spans_without(&left, &a, &b), 0);
		assert_int_equal(spans_length(&left), count(rest));
		assert_int_equal(spans_common(&left, &b), 0);
		spans_release(&a);
		spans_release(&b);
		spans_release(&left);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
};

TEST_FILE(tests)
