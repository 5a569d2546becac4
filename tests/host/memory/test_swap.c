/*
 * Blocks of weights that are copied into two slots before the device needs
 * them. The tests check the contents of a slot from the moment when they are
 * needed until the slot is released, the contents after that, and the simulated
 * time on a phone (phone time) when a slot is ready. This time is compared with
 * a simulation of two slots and one copy engine.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/memory/swap.h"
#include "host/npu/phone.h"
#include "shm/buffer.h"
#include "tests/harness.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 7
#define BYTES  20000

struct fixture {
	uint8_t bytes[BLOCKS][BYTES];
	struct swap_block block[BLOCKS];
	struct swap_opts opts;
	struct phone_time time;
	struct swap *swap;
};

/* Make blocks with different contents and sizes. */
static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t seed = harness_seed();

	for (uint64_t i = 0; i < BLOCKS; i++) {
		for (uint64_t k = 0; k < BYTES; k++)
			f->bytes[i][k] =
				(uint8_t)(rng_uniform(seed, i, k) * 256);
		f->block[i].from = f->bytes[i];
		f->block[i].bytes = f->block[i].counted = BYTES - 100 * i;
		f->block[i].price.total_ps =
			1 + (uint64_t)(rng_uniform(seed, 100, i) * 50);
	}
	f->opts = (struct swap_opts){
		.block = f->block, .n = BLOCKS, .slot_bytes = BYTES
	};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	swap_close(f->swap);
	free(f);
	return 0;
}

static void start(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(swap_open(&f->swap, &f->opts, &e), &e);
	swap_start(f->swap);
}

static const uint8_t *slot_bytes(struct fixture *f, unsigned slot)
{
	struct buffer *b = swap_buffer(f->swap, slot);
	const uint8_t *p = buffer_begin(b, 0, BYTES, BUFFER_READ);

	buffer_end(b, 0, BYTES, BUFFER_READ);
	return p;
}

static void check_slot(struct fixture *f, unsigned slot, uint32_t block)
{
	if (memcmp(slot_bytes(f, slot), f->bytes[block],
		    f->block[block].bytes) != 0)
		fail_msg("slot %u does not hold block %u", slot, block);
}

static unsigned take(struct fixture *f, uint32_t block, uint64_t *ready_ps)
{
	unsigned slot;

	assert_true(swap_need(f->swap, block, &slot, ready_ps));
	while (!swap_is_there(f->swap, slot, 1000))
		;
	check_slot(f, slot, block);
	return slot;
}

/* A slot keeps its contents until its reader releases it, however late. */
static void test_order_and_contents(void **state)
{
	struct fixture *f = *state;
	unsigned held[2], more;
	struct swap_stats st;
	uint64_t ps, bytes = 0;

	for (f->opts.n = 1; f->opts.n <= BLOCKS; f->opts.n++) {
		start(f);
		held[0] = take(f, 0, &ps);
		for (uint32_t i = 1; i < 4 * f->opts.n; i++) {
			uint32_t b = i % f->opts.n;

			held[1] = take(f, b, &ps);
			assert_int_not_equal(held[0], held[1]);
			assert_false(swap_need(f->swap, 0, &more, &ps));
			for (unsigned k = 0; k < 3; k++)
				sched_yield();
			check_slot(f, held[0], (i - 1) % f->opts.n);
			swap_done(f->swap, held[0], 0);
			held[0] = held[1];
		}
		swap_stats(f->swap, &st);
		/* Besides the block that is in use, one more block is ready or
		 * being copied. */
		assert_int_equal(st.copies, 4 * f->opts.n + 1);
		bytes = 0;
		for (uint32_t i = 0; i < 4 * f->opts.n + 1; i++)
			bytes += f->block[i % f->opts.n].bytes;
		assert_int_equal(st.bytes, bytes);
		swap_close(f->swap);
		f->swap = NULL;
	}
}

/* With option poison, a released slot is at once filled with bytes 0xff, which
 * are NaN as floats. A block is never copied into a slot that is still being
 * read. */
static void test_poison(void **state)
{
	struct fixture *f = *state;
	const uint8_t *p;
	unsigned a, b;
	uint64_t ps;

	f->opts.poison = true;
	start(f);
	a = take(f, 0, &ps);
	b = take(f, 1, &ps);
	/* release the newer one of the two slots */
	swap_done(f->swap, b, 0);
	check_slot(f, a, 0);
	assert_int_equal(take(f, 2, &ps), b);
	p = slot_bytes(f, b);
	/* The block is shorter than the slot, and the bytes after it are still
	 * poisoned. */
	for (size_t i = f->block[2].bytes; i < BYTES; i++)
		assert_int_equal(p[i], 0xff);
	swap_done(f->swap, a, 0);
	swap_done(f->swap, b, 0);
}

/* After a pass is aborted, the next pass begins with the first block. */
static void test_broken_off(void **state)
{
	struct fixture *f = *state;
	uint64_t ps;

	start(f);
	for (uint32_t stop = 0; stop < 2 * BLOCKS; stop++) {
		for (uint32_t i = 0; i < stop % BLOCKS; i++)
			swap_done(f->swap, take(f, i, &ps), 0);
		/* In the second half, a slot is still in use when the pass is
		 * aborted. */
		if (stop >= BLOCKS) {
			unsigned held = take(f, stop % BLOCKS, &ps);
			unsigned first = take(f, 0, &ps);

			check_slot(f, held, stop % BLOCKS);
			swap_done(f->swap, held, 0);
			swap_done(f->swap, first, 0);
			swap_done(f->swap, take(f, 1, &ps), 0);
		}
	}
}

/* One engine copies into two slots. A copy begins when the engine and a slot
 * are free. */
static void test_phone(void **state)
{
	struct fixture *f = *state;
	uint64_t engine = 0, free_at[2] = { 0 }, seed = harness_seed();
	uint64_t copied = 0;

	f->opts.time = &f->time;
	start(f);
	for (uint32_t i = 0; i < 5 * BLOCKS; i++) {
		uint64_t ready, want;
		unsigned slot = take(f, i % BLOCKS, &ready);

		want = engine > free_at[i % 2] ? engine : free_at[i % 2];
		engine = want + f->block[i % BLOCKS].price.total_ps;
		assert_int_equal(ready, engine);
		copied += f->block[i % BLOCKS].price.total_ps;
		free_at[i % 2] =
			ready + (uint64_t)(rng_uniform(seed, 200, i) * 90);
		swap_done(f->swap, slot, free_at[i % 2]);
	}
	assert_true(f->time.copy_ps >= copied);
	assert_int_equal(f->time.cpu_ps, 0);
	assert_int_equal(f->time.npu_ps, 0);
}

/* If a slot's buffer cannot be created, or the thread that copies cannot be
 * started, the error names the cause and nothing stays open. */
static void test_not_opened(void **state)
{
	struct fixture *f = *state;
	unsigned fds = harness_fds();
	struct err e = { 0 };

	for (unsigned n = 0; n < 2; n++) {
		harness_limit_fds(n);
		assert_int_equal(swap_open(&f->swap, &f->opts, &e), -EMFILE);
		harness_limit_fds(UINT_MAX);
		assert_non_null(strstr(e.text, n ? "swap1" : "swap0"));
		assert_int_equal(harness_fds(), fds);
	}
	if (harness_sanitized())
		return;
	harness_limit_memory(512 << 10);
	assert_int_equal(swap_open(&f->swap, &f->opts, &e), -EAGAIN);
	harness_limit_memory(UINT64_MAX);
	assert_non_null(
		strstr(e.text, "cannot start the thread that copies weights"));
	assert_int_equal(harness_fds(), fds);
	assert_null(f->swap);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_order_and_contents),
	TEST(test_poison),
	TEST(test_broken_off),
	TEST(test_phone),
	TEST(test_not_opened),
};

TEST_FILE(tests)
