/*
 * Tests contract 2 (two cache levels), DMA writes and asynchronous DMA: for
 * each rule the effect of breaking it (at level strict) and the report (at
 * level check). tests/device has the tests of contract 1 (one cache level).
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "shm/coherence/coherence_hooks.h"
#include "shm/coherence/tandem_coherence.h"
#include "shm/coherence/violation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BYTES 4096

struct bench {
	struct coherence_cache *c;
	struct coherence_buffer *b;
	_Alignas(64) uint8_t mem[BYTES];
	char report[16][VIOLATION_FULL_MAX];
	unsigned n;
};

static void take_report(void *arg, const char *text)
{
	struct bench *b = arg;

	assert_true(b->n < ARRAY_LEN(b->report));
	snprintf(b->report[b->n++], sizeof(b->report[0]), "%s", text);
}

static void open_bench(struct bench *b, enum coherence level,
	enum coherence_contract contract, uint64_t evict_seed)
{
	const struct coherence_config config = { .level = level,
		.contract = contract,
		.evict_seed = evict_seed,
		.report = take_report,
		.arg = b };

	memset(b, 0, sizeof(*b));
	assert_int_equal(coherence_open(&b->c, &config), 0);
	b->b = coherence_register(b->c, "io", b->mem, BYTES, 0, 7);
	assert_non_null(b->b);
	coherence_begin(b->c, 1);
}

static void close_bench(struct bench *b)
{
	const char *first;

	coherence_end(b->c, &first);
	coherence_close(b->c);
}

static uint8_t dev_read(struct bench *b, uint64_t at)
{
	return *(const uint8_t *)coherence_read(b->c, b->b, at, 1);
}

static void dev_write(struct bench *b, uint64_t at, size_t n, uint8_t value)
{
	memset(coherence_write(b->c, b->b, at, n), value, n);
}

static void cpu_write(struct bench *b, uint64_t at, size_t n, uint8_t value)
{
	coherence_host_begin(b->c, b->b, at, n, COHERENCE_WRITE, "cpu_write");
	memset(b->mem + at, value, n);
	coherence_host_end(b->c, b->b, at, n, COHERENCE_WRITE, "cpu_write");
}

/* Fail unless report number i contains both strings. */
static void said(
	struct bench *b, unsigned i, const char *sentence, const char *missing)
{
	if (i >= b->n)
		fail_msg("%u reports; wanted number %u: %s", b->n, i, sentence);
	if (!strstr(b->report[i], sentence) || !strstr(b->report[i], missing))
		fail_msg("report %u is '%s'; wanted '%s' and '%s'", i,
			b->report[i], sentence, missing);
}

/* ---- two levels ---------------------------------------------------------- */

static void a_ranged_clean_stays_in_the_second_level(void **state)
{
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_TWO_LEVELS, 0);
	coherence_operator(b.c, "matmul", 3);
	dev_write(&b, 64, 64, 5);
	coherence_clean(b.c, b.b, 64, 64);
	assert_int_equal(b.mem[64], 0);
	close_bench(&b);
	said(&b, 0, "lost write: io [64, 128) in completion",
		"missing: clean_all for io [64, 128) after matmul, layer 3");
}

static void a_whole_clean_publishes(void **state)
{
	struct bench b;

	for (int clean_range = 0; clean_range < 2; clean_range++) {
		open_bench(&b, COHERENCE_CHECK, COHERENCE_TWO_LEVELS, 0);
		dev_write(&b, 64, 64, 5);
		if (clean_range)
			coherence_clean(b.c, b.b, 64, 64);
		coherence_clean_all(b.c);
		assert_int_equal(b.mem[64], 5);
		assert_int_equal(dev_read(&b, 64), 5);
		close_bench(&b);
		assert_int_equal(b.n, 0);
	}
}

static void a_ranged_invalidate_leaves_the_second_level(void **state)
{
	struct bench b;

	for (int level = COHERENCE_STRICT; level <= COHERENCE_CHECK; level++) {
		open_bench(&b, (enum coherence)level, COHERENCE_TWO_LEVELS, 0);
		dev_read(&b, 0);
		cpu_write(&b, 0, 4, 9);
		coherence_invalidate(b.c, b.b, 0, 4, 0, 0);
		coherence_operator(b.c, "rows", -1);
		assert_int_equal(dev_read(&b, 0), 0);
		coherence_flush_all(b.c);
		assert_int_equal(dev_read(&b, 0), 9);
		close_bench(&b);
		if (level == COHERENCE_CHECK)
			said(&b, 0, "stale read: io [0, 1) in rows",
				"missing: flush_all for io [0, 1) before rows");
		assert_int_equal(b.n, level == COHERENCE_CHECK);
	}
}

/* With contract 1 (one cache level), ranged calls are enough. */
static void ranged_calls_are_enough_with_one_level(void **state)
{
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	dev_read(&b, 0);
	cpu_write(&b, 0, 4, 9);
	coherence_invalidate(b.c, b.b, 0, 4, 0, 0);
	assert_int_equal(dev_read(&b, 0), 9);
	dev_write(&b, 64, 64, 5);
	coherence_clean(b.c, b.b, 64, 64);
	assert_int_equal(b.mem[64], 5);
	close_bench(&b);
	assert_int_equal(b.n, 0);
}

static void needless_calls_are_named(void **state)
{
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_TWO_LEVELS, 0);
	coherence_set_price(b.c, 1e9, 50e-6);
	cpu_write(&b, 0, 4, 9);
	coherence_flush_all(b.c); /* needed: the CPU has written */
	coherence_operator(b.c, "again", -1);
	coherence_flush_all(b.c);
	coherence_operator(b.c, "clean", -1);
	coherence_clean_all(b.c);
	close_bench(&b);
	assert_int_equal(b.n, 2);
	said(&b, 0,
		"needless maintenance:  [0, 0) in again: a call for "
		"the whole cache",
		"could be saved: about 50.000 us on a phone");
	said(&b, 1,
		"needless maintenance:  [0, 0) in clean: a call for "
		"the whole cache",
		"");

	/* A ranged invalidate is needless if the CPU has not written the line
	 * since the previous invalidate. */
	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	cpu_write(&b, 0, 4, 9);
	coherence_invalidate(b.c, b.b, 0, 4, 0, 0);
	coherence_begin(b.c, 2);
	coherence_invalidate(b.c, b.b, 0, 4, 0, 0);
	cpu_write(&b, 0, 4, 8);
	coherence_begin(b.c, 3);
	coherence_invalidate(b.c, b.b, 0, 4, 0, 0);
	close_bench(&b);
	assert_int_equal(b.n, 1);
	said(&b, 0, "needless maintenance: io [0, 4)", "device request 2");
}

/* Evictions move lines to the second level and from there to memory; a missing
 * clean of the whole cache is reported nevertheless. */
static void the_evictor_hides_no_missing_clean(void **state)
{
	struct bench b;
	bool written = false;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		open_bench(&b, COHERENCE_CHECK, COHERENCE_TWO_LEVELS, seed);
		dev_write(&b, 0, 64, 5);
		for (unsigned i = 0; i < 3; i++)
			coherence_operator(b.c, "next", -1);
		written |= b.mem[0] == 5;
		close_bench(&b);
		said(&b, 0, "lost write: io [0, 64) in completion",
			"missing: clean_all for io [0, 64) after request");
	}
	assert_true(written);
}

/* ---- DMA writes ---------------------------------------------------------- */

static void a_read_after_dma_wrote_is_stale(void **state)
{
	uint8_t local[64];
	struct bench b;

	for (int contract = 1; contract <= 2; contract++) {
		open_bench(&b, COHERENCE_CHECK,
			(enum coherence_contract)contract, 0);
		memset(local, 3, sizeof(local));
		dev_read(&b, 0);
		coherence_operator(b.c, "store", 1);
		coherence_dma_write(b.c, b.b, 0, 64, local);
		assert_int_equal(b.mem[0], 3);
		coherence_operator(b.c, "load", 2);
		assert_int_equal(dev_read(&b, 0), 0);
		close_bench(&b);
		assert_int_equal(b.n, 1);
		said(&b, 0,
			"stale read: io [0, 1) in load, layer 2: written by "
			"DMA of request 1 after it was loaded",
			contract == 1
				? "missing: invalidate of io [0, 1) after "
				  "the DMA of store, layer 1, before load"
				: "missing: flush_all for io [0, 1) after "
				  "the DMA of store, layer 1, before load");
	}
}

static void a_write_back_destroys_what_dma_wrote(void **state)
{
	uint8_t local[64];
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	memset(local, 3, sizeof(local));
	coherence_operator(b.c, "compute", 0);
	dev_write(&b, 0, 4, 5);
	coherence_operator(b.c, "store", 1);
	coherence_dma_write(b.c, b.b, 0, 64, local);
	coherence_operator(b.c, "clean", -1);
	coherence_clean(b.c, b.b, 0, 4);
	assert_int_equal(b.mem[0], 5);
	assert_int_equal(b.mem[32], 0); /* DMA had written 3 */
	close_bench(&b);
	assert_int_equal(b.n, 2);
	said(&b, 0, "DMA over dirty lines: io [0, 64) in store, layer 1",
		"missing: clean of io [0, 64) after compute, layer 0, before "
		"store, layer 1");
	said(&b, 1,
		"lost write: io [0, 64) in clean: written back over bytes that "
		"DMA of request 1 wrote",
		"missing: invalidate of io [0, 64) after the DMA of store");
}

static void dma_after_maintenance_is_fine(void **state)
{
	uint8_t local[64], back[64];
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_TWO_LEVELS, 0);
	memset(local, 3, sizeof(local));
	dev_write(&b, 0, 64, 5);
	coherence_flush_all(b.c);
	coherence_dma_read(b.c, b.b, 0, 64, back);
	coherence_local(b.c, back, 64, COHERENCE_READ);
	assert_int_equal(back[0], 5);
	coherence_dma_write(b.c, b.b, 0, 64, local);
	assert_int_equal(dev_read(&b, 0), 3);
	close_bench(&b);
	assert_int_equal(b.n, 0);
}

/* ---- asynchronous DMA ---------------------------------------------------- */

static struct coherence_dma transfer(
	struct bench *b, uint64_t at, void *local, bool to_buffer)
{
	return (struct coherence_dma){ .buffer = b->b,
		.offset = at,
		.local = local,
		.bytes = 64,
		.to_buffer = to_buffer };
}

static void bytes_used_before_the_wait_are_named(void **state)
{
	uint8_t local[64] = { 0 };
	struct coherence_dma d;
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	memset(b.mem, 6, 64);
	d = transfer(&b, 0, local, false);
	coherence_operator(b.c, "prefetch", 0);
	coherence_dma_start(b.c, &d);
	coherence_operator(b.c, "multiply", 0);
	coherence_local(b.c, local, 64, COHERENCE_READ);
	assert_int_equal(local[0], 0);
	coherence_dma_wait(b.c, &d);
	assert_int_equal(local[0], 6);
	coherence_local(b.c, local, 64, COHERENCE_READ);
	close_bench(&b);
	assert_int_equal(b.n, 1);
	said(&b, 0,
		"read before a wait: io [0, 64) in multiply, layer 0: read "
		"while DMA of request 1 still writes it",
		"missing: wait for the DMA of prefetch, layer 0 before "
		"multiply, layer 0");
}

static void a_buffer_reused_before_the_wait_is_named(void **state)
{
	uint8_t local[64] = { 0 };
	struct coherence_dma d, other;
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	memset(local, 1, 64);
	d = transfer(&b, 0, local, true);
	other = transfer(&b, 128, local, false);
	coherence_operator(b.c, "store", -1);
	coherence_dma_start(b.c, &d);
	coherence_operator(b.c, "compute", -1);
	coherence_local(b.c, local, 64, COHERENCE_WRITE);
	memset(local, 2, 64);
	coherence_operator(b.c, "load", -1);
	coherence_dma_start(b.c, &other);
	coherence_dma_wait(b.c, &d);
	coherence_dma_wait(b.c, &other);
	coherence_local(b.c, local, 64, COHERENCE_READ);
	assert_int_equal(b.mem[0], 2); /* the transfer should have stored 1 */
	close_bench(&b);
	assert_int_equal(b.n, 2);
	said(&b, 0, "write before a wait: io [0, 64) in compute",
		"missing: wait for the DMA of store before compute");
	said(&b, 1, "write before a wait: io [0, 64) in load",
		"missing: wait for the DMA of store before load");
}

static void waiting_for_the_last_of_a_chain_ends_all(void **state)
{
	uint8_t local[2][64] = { { 0 } };
	struct coherence_dma d[2];
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	memset(b.mem, 6, 128);
	d[0] = transfer(&b, 0, local[0], false);
	d[1] = transfer(&b, 64, local[1], false);
	d[0].next = &d[1];
	coherence_operator(b.c, "prefetch", -1);
	coherence_dma_start(b.c, &d[0]);
	coherence_dma_wait(b.c, &d[1]);
	coherence_local(b.c, local, sizeof(local), COHERENCE_READ);
	assert_int_equal(local[0][0] + local[1][0], 12);
	assert_int_equal(b.n, 0);
	coherence_operator(b.c, "again", -1);
	coherence_dma_wait(b.c, &d[0]);
	close_bench(&b);
	assert_int_equal(b.n, 1);
	said(&b, 0, "needless wait: io [0, 64) in again: waited for, but DMA",
		"had ended");
}

static void a_wait_left_out_and_one_for_nothing_are_named(void **state)
{
	uint8_t local[2][64] = { { 0 } };
	struct coherence_dma d[2];
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	d[0] = transfer(&b, 0, local[0], true);
	d[1] = transfer(&b, 64, local[1], false);
	coherence_operator(b.c, "store", -1);
	coherence_dma_start(b.c, &d[0]);
	coherence_operator(b.c, "load", -1);
	coherence_dma_start(b.c, &d[1]);
	coherence_dma_wait(b.c, &d[1]);
	close_bench(&b);
	assert_int_equal(b.n, 2);
	said(&b, 0, "missing wait: io [0, 64) in completion: DMA of request 1 ",
		"missing: wait for the DMA of store");
	said(&b, 1, "needless wait: io [64, 128) in completion",
		"nothing used the bytes");
}

/* Two unordered transfers access the same bytes of the buffer, and at least one
 * of them writes these bytes. */
static void unordered_transfers_of_a_range_are_named(void **state)
{
	uint8_t local[2][64] = { { 7 }, { 0 } };
	struct coherence_dma store, other;
	struct bench b;

	for (int writes = 0; writes < 2; writes++) {
		open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
		store = transfer(&b, 0, local[0], true);
		other = transfer(&b, 0, local[1], writes);
		coherence_operator(b.c, "store", -1);
		coherence_dma_start(b.c, &store);
		coherence_operator(b.c, "other", -1);
		coherence_dma_start(b.c, &other);
		coherence_dma_wait(b.c, &other);
		coherence_local(b.c, local[1], 64, COHERENCE_READ);
		coherence_dma_wait(b.c, &store);
		close_bench(&b);
		assert_int_equal(b.n, 1);
		said(&b, 0,
			writes ? "write before a wait: io [0, 64) in other"
			       : "read before a wait: io [0, 64) in other",
			"missing: wait for the DMA of store before other");
	}
}

/* The report of a stale read names the last writer of the memory. This is DMA
 * for a line that was loaded while the DMA was in progress, and the CPU for a
 * line that the CPU wrote after DMA. */
static void the_last_writer_of_memory_is_named(void **state)
{
	uint8_t local[64] = { 7 };
	struct coherence_dma d;
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	d = transfer(&b, 0, local, true);
	coherence_operator(b.c, "store", -1);
	coherence_dma_start(b.c, &d);
	dev_read(&b, 0); /* too early, which is reported */
	coherence_dma_wait(b.c, &d);
	coherence_operator(b.c, "load", -1);
	dev_read(&b, 0);
	assert_int_equal(b.n, 1);
	coherence_invalidate(b.c, b.b, 0, 64, 0, 0);
	coherence_dma_write(b.c, b.b, 64, 64, local);
	dev_read(&b, 64);
	coherence_dma_write(b.c, b.b, 64, 64, local);
	cpu_write(&b, 64, 4, 9);
	coherence_operator(b.c, "load again", -1);
	dev_read(&b, 64);
	close_bench(&b);
	assert_int_equal(b.n, 3);
	said(&b, 0, "read before a wait: io [0, 64) in store", "");
	said(&b, 1, "stale read: io [0, 1) in load: written by DMA",
		"after the DMA of store, before load");
	said(&b, 2, "stale read: io [64, 65) in load again: written by the CPU",
		"before load again");
}

/* With an eviction seed, a transfer may move its bytes at any time before the
 * wait. The reports are the same. */
static void dma_may_end_at_any_moment(void **state)
{
	uint8_t local[64];
	struct coherence_dma d;
	bool early = false, late = false;
	struct bench b;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, seed);
		memset(b.mem, 6, 64);
		memset(local, 0, 64);
		d = transfer(&b, 0, local, false);
		coherence_dma_start(b.c, &d);
		early |= local[0] == 6;
		late |= local[0] == 0;
		coherence_local(b.c, local, 1, COHERENCE_READ);
		coherence_dma_wait(b.c, &d);
		assert_int_equal(local[0], 6);
		coherence_local(b.c, local, 1, COHERENCE_READ);
		close_bench(&b);
		assert_int_equal(b.n, 1);
	}
	assert_true(early && late);
}

/* ---- brackets (accesses of the CPU) -------------------------------------- */

static void an_open_bracket_is_named(void **state)
{
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	coherence_host_begin(b.c, b.b, 0, 64, COHERENCE_WRITE, "fill_input");
	coherence_operator(b.c, "load", -1);
	dev_read(&b, 8);
	coherence_host_end(b.c, b.b, 0, 64, COHERENCE_WRITE, "fill_input");
	close_bench(&b);
	assert_int_equal(b.n, 1);
	said(&b, 0, "read of a held buffer: io [8, 9) in load",
		"the CPU, bracket 1, fill_input");
}

static void a_stale_read_names_the_function_that_wrote(void **state)
{
	struct bench b;

	open_bench(&b, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0);
	dev_read(&b, 0);
	cpu_write(&b, 0, 4, 9);
	coherence_operator(b.c, "load", -1);
	dev_read(&b, 0);
	close_bench(&b);
	said(&b, 0, "stale read: io [0, 1) in load",
		"written by: the CPU, bracket 1, cpu_write");
}

static void bad_configurations_are_refused(void **state)
{
	struct coherence_cache *c;

	assert_int_equal(
		coherence_open(&c,
			&(struct coherence_config){ .level = COHERENCE_COUNT }),
		-EINVAL);
	assert_int_equal(
		coherence_open(&c, &(struct coherence_config){ .contract = 3 }),
		-EINVAL);
	coherence_close(NULL);
}

const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_ranged_clean_stays_in_the_second_level),
	cmocka_unit_test(a_whole_clean_publishes),
	cmocka_unit_test(a_ranged_invalidate_leaves_the_second_level),
	cmocka_unit_test(ranged_calls_are_enough_with_one_level),
	cmocka_unit_test(needless_calls_are_named),
	cmocka_unit_test(the_evictor_hides_no_missing_clean),
	cmocka_unit_test(a_read_after_dma_wrote_is_stale),
	cmocka_unit_test(a_write_back_destroys_what_dma_wrote),
	cmocka_unit_test(dma_after_maintenance_is_fine),
	cmocka_unit_test(bytes_used_before_the_wait_are_named),
	cmocka_unit_test(a_buffer_reused_before_the_wait_is_named),
	cmocka_unit_test(waiting_for_the_last_of_a_chain_ends_all),
	cmocka_unit_test(a_wait_left_out_and_one_for_nothing_are_named),
	cmocka_unit_test(unordered_transfers_of_a_range_are_named),
	cmocka_unit_test(the_last_writer_of_memory_is_named),
	cmocka_unit_test(dma_may_end_at_any_moment),
	cmocka_unit_test(an_open_bracket_is_named),
	cmocka_unit_test(a_stale_read_names_the_function_that_wrote),
	cmocka_unit_test(bad_configurations_are_refused),
};

TEST_FILE(tests)
