/*
 * Tests live_range_place, which gives each buffer an offset in one memory area.
 * Buffers that are alive at the same step must never share a byte. The size of
 * the area must be at least the number of bytes alive at any step, and at most
 * the sum of the sizes of all buffers.
 */
#include "base/checked.h"
#include "base/live_range.h"
#include "base/rng.h"
#include "tests/harness.h"

#include <string.h>

#define STEPS 20

static void check(const struct live_range *r, unsigned n, size_t total,
	size_t align, uint64_t round)
{
	size_t most = 0, all = 0;

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(r[i].at % align, 0);
		assert_true(r[i].at + r[i].bytes <= total);
		all += align_up(r[i].bytes, align);
	}
	assert_true(total <= all);
	for (uint32_t step = 0; step < STEPS; step++) {
		static unsigned char owner[1 << 16];
		size_t alive = 0;

		memset(owner, 0, sizeof(owner));
		for (unsigned i = 0; i < n; i++) {
			if (step < r[i].first || step > r[i].last)
				continue;
			alive += r[i].bytes;
			for (size_t b = 0; b < r[i].bytes; b++) {
				if (owner[r[i].at + b])
					fail_msg("round %llu, step %u: %u and "
						 "%u share byte %zu",
						(unsigned long long)round, step,
						i, owner[r[i].at + b] - 1u,
						r[i].at + b);
				owner[r[i].at + b] = (unsigned char)(i + 1);
			}
		}
		most = alive > most ? alive : most;
	}
	assert_true(total >= most);
}

static void test_random(void **state)
{
	uint64_t seed = harness_seed();

	for (uint64_t round = 0; round < 300; round++) {
		struct live_range r[LIVE_RANGES];
		unsigned n = 1 + (unsigned)(round % LIVE_RANGES);
		size_t align = (size_t)1 << round % 7;

		for (unsigned i = 0; i < n; i++) {
			uint64_t at = round * 100 + i;
			uint32_t a =
				(uint32_t)(rng_uniform(seed, 1, at) * STEPS);
			uint32_t b =
				(uint32_t)(rng_uniform(seed, 2, at) * STEPS);

			r[i] = (struct live_range){ a < b ? a : b,
				a < b ? b : a,
				(size_t)(rng_uniform(seed, 3, at) * 1000), 0 };
		}
		check(r, n, live_range_place(r, n, align), align, round);
	}
}

/* Buffers that are alive one after another share the same bytes. */
static void test_reused(void **state)
{
	struct live_range r[] = { { 0, 1, 100, 0 }, { 2, 3, 80, 0 },
		{ 4, 4, 100, 0 }, { 0, 4, 60, 0 } };

	assert_int_equal(live_range_place(r, 4, 1), 160);
	assert_int_equal(r[0].at, 0);
	assert_int_equal(r[2].at, 0);
	assert_int_equal(r[3].at, 100);
}

/* The largest buffer is placed first. For each further buffer only those placed
 * buffers count that are alive at a step of the further buffer. The further
 * buffer is placed in the smallest gap between them into which it fits, here
 * always after all of them. */
static void test_best_fit(void **state)
{
	struct live_range r[] = {
		/* this buffer and the next one both get offset 0, because they
		 * are never alive at the same step */
		{ 0, 0, 100, 0 },
		{ 1, 1, 99, 0 },
		{ 0, 1, 50, 0 },
		{ 0, 0, 10, 0 },
	};

	assert_int_equal(live_range_place(r, 4, 1), 160);
	assert_int_equal(r[2].at, 100);
	assert_int_equal(r[3].at, 150);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_reused),
	cmocka_unit_test(test_best_fit),
};

TEST_FILE(tests)
