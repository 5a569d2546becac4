/*
 * The pool that allocates the slots of the KV cache in runs (groups of
 * consecutive slots). No run belongs to two sequences unless they share it,
 * references are counted, and consecutive runs of a sequence are adjacent while
 * there is room.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/memory/kv_pool.h"
#include "tests/harness.h"

#include <stdbool.h>

#define RUNS  97
#define STEPS 100000

static struct kv_pool *pool_of(uint32_t slots)
{
	struct kv_pool *p;
	struct err e = { 0 };

	assert_ok(kv_pool_open(&p, slots, &e), &e);
	return p;
}

static void test_sizes(void **state)
{
	static const struct {
		uint32_t slots, runs;
	} want[] = { { 1, 1 }, { KV_RUN - 1, 1 }, { KV_RUN, 1 },
		{ KV_RUN + 1, 2 }, { 10 * KV_RUN, 10 } };

	for (unsigned i = 0; i < 5; i++) {
		struct kv_pool *p = pool_of(want[i].slots);

		assert_int_equal(kv_pool_runs(p), want[i].runs);
		assert_int_equal(kv_pool_free(p), want[i].runs);
		kv_pool_close(p);
	}
}

/* A single sequence may use all slots, and the slot of a token is its
 * position. */
static void test_one_alone_lies_in_a_row(void **state)
{
	struct kv_pool *p = pool_of(RUNS * KV_RUN - 1);
	uint32_t run[RUNS], n = 0;

	for (uint32_t more = 1; n < RUNS; n += more, more++) {
		more = more < RUNS - n ? more : RUNS - n;
		kv_pool_take(p, n ? run[n - 1] : KV_NOWHERE, more, run + n);
	}
	for (uint32_t i = 0; i < RUNS; i++)
		assert_int_equal(run[i], i);
	assert_int_equal(kv_pool_free(p), 0);
	kv_pool_close(p);
}

/* Sixteen sequences begin one after another and then grow in turn. Each must
 * remain contiguous. */
static void test_all_have_room_to_grow(void **state)
{
	enum { MANY = 16, LENGTH = 16 };
	struct kv_pool *p = pool_of(2 * MANY * LENGTH * KV_RUN);
	uint32_t last[MANY], breaks = 0;

	for (unsigned i = 0; i < MANY; i++)
		kv_pool_take(p, KV_NOWHERE, 1, &last[i]);
	for (unsigned n = 1; n < LENGTH; n++)
		for (unsigned i = 0; i < MANY; i++) {
			uint32_t before = last[i];

			kv_pool_take(p, before, 1, &last[i]);
			breaks += last[i] != before + 1;
		}
	assert_int_equal(breaks, 0);
	kv_pool_close(p);
}

/* 64 samples of one prompt grow in random order until the pool is full. The
 * runs of each sample must form only one or two contiguous pieces. */
static void test_samples_stay_whole(void **state)
{
	enum { MANY = 64, LENGTH = 16, PROMPT = 16 };
	struct kv_pool *p = pool_of((PROMPT + MANY * LENGTH) * KV_RUN);
	uint32_t prompt[PROMPT], last[MANY], n[MANY] = { 0 }, pieces = 0;
	uint64_t seed = harness_seed(), draws = 0;

	kv_pool_take(p, KV_NOWHERE, PROMPT, prompt);
	for (unsigned i = 0; i < MANY; i++)
		last[i] = prompt[PROMPT - 1];
	while (kv_pool_free(p)) {
		unsigned i = (unsigned)(rng_uniform(seed, 9, draws++) * MANY);
		uint32_t before = last[i];

		if (n[i]++ >= LENGTH)
			continue;
		kv_pool_take(p, before, 1, &last[i]);
		pieces += last[i] != before + 1;
	}
	print_message("%.2f pieces each\n", pieces / (double)MANY);
	assert_in_range(pieces, MANY - 1, 2 * MANY);
	kv_pool_close(p);
}

/* Compare the pool after random operations with the test's own counts. */
static void test_references(void **state)
{
	struct kv_pool *p = pool_of(RUNS * KV_RUN);
	uint32_t refs[RUNS] = { 0 }, run[RUNS], free_runs = RUNS;
	uint64_t seed = harness_seed();

	for (uint64_t i = 0; i < STEPS; i++) {
		uint32_t r = (uint32_t)(rng_uniform(seed, 1, i) * RUNS);
		uint32_t n = (uint32_t)(rng_uniform(seed, 2, i) * 9);
		bool side = r + 1 < RUNS && !refs[r + 1];

		if (!refs[r] && n <= free_runs) {
			kv_pool_take(p, r, n, run);
			if (n && side)
				assert_int_equal(run[0], r + 1);
			for (uint32_t k = 0; k < n; k++) {
				assert_int_equal(refs[run[k]], 0);
				refs[run[k]] = 1;
			}
			free_runs -= n;
		} else if (refs[r] && rng_uniform(seed, 3, i) < .3) {
			kv_pool_ref(p, r);
			refs[r]++;
		} else if (refs[r]) {
			kv_pool_unref(p, r);
			free_runs += !--refs[r];
		}
		assert_int_equal(kv_pool_free(p), free_runs);
		assert_int_equal(kv_pool_refs(p, r), refs[r]);
	}
	kv_pool_close(p);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sizes),
	cmocka_unit_test(test_one_alone_lies_in_a_row),
	cmocka_unit_test(test_all_have_room_to_grow),
	cmocka_unit_test(test_samples_stay_whole),
	cmocka_unit_test(test_references),
};

TEST_FILE(tests)
