#include "tests/harness.h"

#include "ipc/brackets.h"
#include "tests/device/cache_bench.h"

#include <string.h>

/*
 * The tests of this file check the exact report of each kind of broken rule:
 * kind, range, writer, reader, the values in the cache and in memory, and the
 * missing call.
 */

static void said_exactly(struct bench *b, unsigned n, const char *want)
{
	if (n >= b->n_reports)
		fail_msg("%u reports, wanted number %u:\n%s", b->n_reports, n,
			want);
	assert_string_equal(b->report[n], want);
}

/* The CPU writes `len` bytes of `v` in an access (bracket), and the device
 * invalidates the bytes unless a fault leaves that out. */
static void cpu_writes(struct bench *b, uint32_t off, uint32_t len, uint8_t v,
	uint32_t seq, unsigned by)
{
	memset(b->cpu + off, v, len);
	cache_invalidate(b->cache, b->at + off, len, seq, by);
}

static void names(struct bench *b, unsigned by, const char *function)
{
	snprintf(b->wire.name[by - 1], WIRE_NAME_BYTES, "%s", function);
}

static void reports_a_stale_read(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, "drop-invalidate:test:io#2");
	names(&b, 1, "write_embeddings");
	cache_operator(b.cache, "hidden_in", -1);
	cpu_writes(&b, 64, 16, 1, 1, 1);
	view_read(b.cache, b.at + 64, 16);
	next(&b, 2);
	cpu_writes(&b, 72, 2, 0xa5, 2, 1);
	cache_operator(b.cache, "rmsnorm", 3);
	view_read(b.cache, b.at + 64, 16);
	next(&b, 3);
	said_exactly(&b, 0,
		"stale read: test:io [64, 80) in rmsnorm, layer 3: written by "
		"the CPU since request 1 loaded it: invalidate it (CPU bracket "
		"2, device request 2)\n"
		"    written by: the CPU, bracket 2, write_embeddings\n"
		"    read by: the device, request 2, rmsnorm, layer 3\n"
		"    values: at byte 72 the cache has 01 01 01 01 01 01 01 01, "
		"memory has a5 a5 01 01 01 01 01 01\n"
		"    missing: invalidate of test:io [64, 80) before rmsnorm, "
		"layer 3");
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

/* The CPU writes, and no request declares the write. The report takes the name
 * of the writing function from an access of the CPU (bracket) that is still
 * open. */
static void an_open_bracket_names_the_writer(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	names(&b, 2, "poll_state");
	dev_read(&b, 0);
	next(&b, 2);
	b.cpu[0] = 9;
	b.wire.hold[3] = (struct wire_hold){ BENCH_IO, 2, 0, 4, 7, 2 };
	cache_operator(b.cache, "rows", -1);
	dev_read(&b, 0);
	next(&b, 3);
	said(&b, 0, "read of a held buffer: test:io", "[0, 1)", "rows");
	said(&b, 1, "stale read: test:io [0, 1)",
		"written by: the CPU, bracket 7, poll_state",
		"the cache has 00 00 00 00 00 00 00 00, memory has 09 00 00");
	bench_close(&b);
	assert_int_equal(b.n_reports, 2);
}

static void reports_a_lost_cpu_write(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_operator(b.cache, "kv write", 2);
	dev_write(&b, 0, 64, 7);
	b.cpu[5] = 0xee;
	cache_operator(b.cache, "kv clean", 2);
	cache_clean(b.cache, b.at, 64);
	next(&b, 2);
	said_exactly(&b, 0,
		"lost write: test:io [0, 64) in kv clean, layer 2: written "
		"back over bytes that the CPU wrote after request 1 loaded "
		"them (CPU bracket unknown, device request 1)\n"
		"    written by: the CPU, in a bracket that was not reported\n"
		"    loaded by: the device, request 1, kv write, layer 2\n"
		"    met by: the device, request 1, kv clean, layer 2\n"
		"    values: at byte 5 the cache has 07 07 07 07 07 07 07 07, "
		"memory has ee 00 00 00 00 00 00 00\n"
		"    missing: invalidate of test:io [0, 64) before kv write, "
		"layer 2");
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

/* The device writes four bytes of a cache line, and the CPU writes another byte
 * of the same line. */
static void reports_a_torn_line(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_operator(b.cache, "hidden_out", -1);
	dev_write(&b, 128, 4, 7);
	b.cpu[128 + 60] = 0x55;
	cache_clean(b.cache, b.at + 128, 4);
	next(&b, 2);
	said_exactly(&b, 0,
		"torn line: test:io [128, 192) in hidden_out: written back "
		"with bytes of request 1, over the CPU's bytes in the same "
		"line (CPU bracket unknown, device request 1)\n"
		"    written by: the CPU, in a bracket that was not reported\n"
		"    written by: the device, request 1, hidden_out\n"
		"    met by: the device, request 1, hidden_out\n"
		"    values: at byte 188 the cache has 00 00 00 00, memory has "
		"55 00 00 00\n"
		"    missing: invalidate of test:io [128, 192) before "
		"hidden_out, or separate cache lines");
	assert_int_equal(b.cpu[128 + 60], 0);
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

static void reports_a_dropped_write(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_operator(b.cache, "kv write", 0);
	dev_write(&b, 64, 64, 3);
	cache_operator(b.cache, "sync", -1);
	cache_invalidate(b.cache, b.at + 64, 64, 4, 0);
	next(&b, 2);
	said_exactly(&b, 0,
		"lost write: test:io [64, 128) in sync: dropped with bytes "
		"that request 1 wrote: clean it first (CPU bracket unknown, device request "
		"1)\n"
		"    written by: the device, request 1, kv write, layer 0\n"
		"    met by: the device, request 1, sync\n"
		"    values: at byte 64 the cache has 03 03 03 03 03 03 03 03, "
		"memory has 00 00 00 00 00 00 00 00\n"
		"    missing: clean of test:io [64, 128) after kv write, layer "
		"0");
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

/* A missing clean is reported at the end of the request, not when the mapping
 * is removed, and only once. */
static void reports_a_missing_clean(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, "drop-clean:test:io#1");
	cache_operator(b.cache, "kv write", 4);
	dev_write(&b, 64, 128, 3);
	cache_operator(b.cache, "kv clean", 4);
	cache_clean(b.cache, b.at + 64, 128);
	next(&b, 2);
	assert_int_equal(b.counters.violations, 1);
	said_exactly(&b, 0,
		"lost write: test:io [64, 192) in completion: written by "
		"request 1, but not cleaned: clean it (CPU bracket unknown, device "
		"request 1)\n"
		"    written by: the device, request 1, kv write, layer 4\n"
		"    met by: the CPU, once request 1 is answered\n"
		"    values: at byte 64 the cache has 03 03 03 03 03 03 03 03, "
		"memory has 00 00 00 00 00 00 00 00\n"
		"    missing: clean of test:io [64, 192) after kv write, layer "
		"4");
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

/* By chance, an eviction writes the line back to memory. The missing clean is
 * still reported. */
static void reports_a_missing_clean_after_an_eviction(void **state)
{
	struct bench b;
	unsigned i = 0;

	bench_open(&b, COHERENCE_CHECK, harness_seed(), NULL);
	cache_operator(b.cache, "kv write", 1);
	dev_write(&b, 0, 64, 6);
	while (b.cpu[0] != 6 && i++ < 100)
		cache_operator(b.cache, "silu", 1);
	assert_int_equal(b.cpu[0], 6);
	next(&b, 2);
	said_exactly(&b, 0,
		"lost write: test:io [0, 64) in completion: written by "
		"request 1, but not cleaned: clean it (CPU bracket unknown, device "
		"request 1)\n"
		"    written by: the device, request 1, kv write, layer 1\n"
		"    met by: the CPU, once request 1 is answered\n"
		"    values: at byte 0 the cache has 06 06 06 06 06 06 06 06, "
		"memory had 00 00 00 00 00 00 00 00\n"
		"    the evictor: wrote 64 of 64 bytes back, by chance\n"
		"    missing: clean of test:io [0, 64) after kv write, layer "
		"1");
	/* A clean after the report is not reported as needless. */
	cache_clean(b.cache, b.at, 64);
	next(&b, 3);
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

static void reports_dma_over_dirty_lines(void **state)
{
	uint8_t tcm[128];
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_operator(b.cache, "kv write", 1);
	dev_write(&b, 64, 64, 9);
	cache_operator(b.cache, "gate", 1);
	dma_read(b.cache, b.at, 128, tcm);
	assert_int_equal(tcm[64], 0);
	cache_clean(b.cache, b.at + 64, 64);
	next(&b, 2);
	said_exactly(&b, 0,
		"DMA over dirty lines: test:io [64, 128) in gate, layer 1: "
		"written by request 1, but not yet cleaned: clean it first (CPU "
		"bracket unknown, device request 1)\n"
		"    written by: the device, request 1, kv write, layer 1\n"
		"    met by: the device, request 1, gate, layer 1, by DMA\n"
		"    values: at byte 64 the cache has 09 09 09 09 09 09 09 09, "
		"memory has 00 00 00 00 00 00 00 00\n"
		"    missing: clean of test:io [64, 128) after kv write, layer "
		"1, before gate, layer 1");
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

/* The report names the CPU function that holds the buffer. The functions of
 * ipc/brackets.h for the host publish this name. */
static void reports_a_write_to_a_held_buffer(void **state)
{
	struct brackets host;
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	brackets_init(&host);
	brackets_connect(&host, &b.wire);
	b.wire.hold[0] = (struct wire_hold){ BENCH_IO, 1, 96, 64, 0,
		brackets_name(&host, "read_hidden") };
	cache_operator(b.cache, "hidden_out", -1);
	dev_write(&b, 0, 128, 5);
	dev_read(&b, 100); /* allowed: the CPU only reads */
	cache_clean(b.cache, b.at, 128);
	next(&b, 2);
	said_exactly(&b, 0,
		"write to a held buffer: test:io [96, 128) in hidden_out: "
		"written while the CPU has it in an open bracket (CPU bracket "
		"0, device request 1)\n"
		"    held by: the CPU, bracket 0, read_hidden\n"
		"    written by: the device, request 1, hidden_out\n"
		"    met by: the device, request 1, hidden_out\n"
		"    missing: end of the CPU's bracket of test:io [96, 128) "
		"before hidden_out");
	brackets_release(&host);
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

/* DMA, which bypasses the cache, reads a part of a buffer while the CPU fills
 * this part. */
static void reports_a_read_of_a_held_buffer(void **state)
{
	uint8_t tcm[64];
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	names(&b, 1, "fill_next");
	b.wire.hold[WIRE_HOLDS - 1] =
		(struct wire_hold){ BENCH_DMA, 2, 0, 4096, 6, 1 };
	cache_operator(b.cache, "q", 0);
	dma_read(b.cache, b.dma_at + 4096, 64, tcm); /* after the held range */
	dma_read(b.cache, b.dma_at + 64, 64, tcm);
	next(&b, 2);
	said_exactly(&b, 0,
		"read of a held buffer: test:dma [64, 128) in q, layer 0: read "
		"while the CPU has it open for writing (CPU bracket 6, device "
		"request 1)\n"
		"    written by: the CPU, bracket 6, fill_next\n"
		"    read by: the device, request 1, q, layer 0\n"
		"    missing: end of the CPU's bracket of test:dma [64, 128) "
		"before q, layer 0");
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

static void reports_needless_maintenance(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_invalidate(b.cache, b.at, 100, 3, 0);
	next(&b, 2);
	cache_operator(b.cache, "sync", -1);
	cache_invalidate(b.cache, b.at, 100, 3, 0);
	next(&b, 3);
	said_exactly(&b, 0,
		"needless maintenance: test:io [0, 100) in sync: invalidated, "
		"but not written by the CPU since request 1 (CPU bracket 3, "
		"device request 2)\n"
		"    could be saved: 128 bytes, about 0.013 us on a phone");
	cache_price_maintenance(b.cache, 1e6, 0);
	cache_operator(b.cache, "kv clean", 0);
	cache_clean(b.cache, b.at + 128, 64);
	next(&b, 4);
	said_exactly(&b, 1,
		"needless maintenance: test:io [128, 192) in kv clean, layer "
		"0: cleaned, but not written by the device as of request 0 "
		"(CPU bracket unknown, device request 3)\n"
		"    could be saved: 64 bytes, about 64.000 us on a phone");
	bench_close(&b);
	assert_int_equal(b.n_reports, 2);
}

/*
 * Each of 25 operators causes one report, and the first operator a second one.
 * The first 20 reports are printed. One line states the number of repeats of
 * the first report, another line the number of reports of the other 5
 * operators.
 */
static void repeated_reports_are_counted(void **state)
{
	static const char *const op[] = { "a", "b", "c", "d", "e", "f", "g",
		"h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
		"u", "v", "w", "x", "y" };
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	view_read(b.cache, b.at, 4096);
	memset(b.cpu, 1, 4096);
	for (unsigned i = 0; i < ARRAY_LEN(op); i++) {
		cache_operator(b.cache, op[i], -1);
		dev_read(&b, i * 128);
	}
	cache_operator(b.cache, "a", 3);
	dev_read(&b, 25 * 128);
	next(&b, 2);
	bench_close(&b);
	assert_int_equal(b.n_reports, VIOLATION_SHOWN + 2);
	assert_non_null(strchr(b.report[VIOLATION_SHOWN - 1], '\n'));
	said_exactly(&b, VIOLATION_SHOWN,
		"... and 1 more like this in test:io (stale read in a)");
	said_exactly(&b, VIOLATION_SHOWN + 1,
		"... and 5 more of other kinds, buffers or operators");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reports_a_stale_read),
	cmocka_unit_test(an_open_bracket_names_the_writer),
	cmocka_unit_test(reports_a_lost_cpu_write),
	cmocka_unit_test(reports_a_torn_line),
	cmocka_unit_test(reports_a_dropped_write),
	cmocka_unit_test(reports_a_missing_clean),
	cmocka_unit_test(reports_a_missing_clean_after_an_eviction),
	cmocka_unit_test(reports_dma_over_dirty_lines),
	cmocka_unit_test(reports_a_write_to_a_held_buffer),
	cmocka_unit_test(reports_a_read_of_a_held_buffer),
	cmocka_unit_test(reports_needless_maintenance),
	cmocka_unit_test(repeated_reports_are_counted),
};

TEST_FILE(tests)
