#include "tests/harness.h"

#include "tests/device/cache_bench.h"
#include "tests/device/rig.h"

#include <errno.h>
#include <string.h>

/* ---- strict: effects of missing maintenance ------------------------------ */

static void off_aliases_and_counts(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_OFF, 0, NULL);
	b.cpu[10] = 1;
	assert_int_equal(dev_read(&b, 10), 1);
	b.cpu[10] = 2;
	assert_int_equal(dev_read(&b, 10), 2);
	dev_write(&b, 70, 4, 9);
	assert_int_equal(b.cpu[70], 9);
	cache_invalidate(b.cache, b.at + 63, 2, 1, 0); /* touches two lines */
	cache_clean(b.cache, b.at, 8192);
	next(&b, 2);
	assert_int_equal(b.counters.invalidated_lines, 2);
	assert_int_equal(b.counters.cleaned_lines, 128);
	bench_close(&b);
	assert_int_equal(b.n_reports, 0);
}

static void strict_keeps_old_bytes(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_STRICT, 0, NULL);
	b.cpu[10] = 1;
	assert_int_equal(dev_read(&b, 10), 1);
	b.cpu[10] = 2;
	b.cpu[64] = 2; /* the device has not read this line yet */
	assert_int_equal(dev_read(&b, 10), 1);
	assert_int_equal(dev_read(&b, 64), 2);
	cache_invalidate(b.cache, b.at, 1, 1, 0);
	assert_int_equal(dev_read(&b, 10), 2);
	bench_close(&b);
	assert_int_equal(b.n_reports, 0);
}

static void strict_keeps_writes_private(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_STRICT, 0, NULL);
	dev_write(&b, 100, 100, 7);
	assert_int_equal(b.cpu[100], 0);
	assert_int_equal(dev_read(&b, 100), 7);
	cache_clean(b.cache, b.at + 100, 100);
	assert_int_equal(b.cpu[99], 0);
	assert_int_equal(b.cpu[100], 7);
	assert_int_equal(b.cpu[199], 7);
	assert_int_equal(b.cpu[200], 0);
	bench_close(&b);
}

static void strict_clobbers_false_sharing(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_STRICT, 0, NULL);
	dev_write(&b, 0, 32, 7); /* loads the line */
	b.cpu[40] = 5;           /* the CPU writes to the same line */
	cache_clean(b.cache, b.at, 32);
	assert_int_equal(b.cpu[0], 7);
	assert_int_equal(b.cpu[40], 0);
	bench_close(&b);
}

static void strict_loses_invalidated_writes(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_STRICT, 0, NULL);
	dev_write(&b, 0, 64, 7);
	cache_invalidate(b.cache, b.at, 64, 1, 0);
	cache_clean(b.cache, b.at, 64);
	assert_int_equal(b.cpu[0], 0);
	assert_int_equal(dev_read(&b, 0), 0);
	bench_close(&b);
}

static void dma_bypasses_the_cache(void **state)
{
	uint8_t tcm[64];
	struct bench b;

	bench_open(&b, COHERENCE_STRICT, 0, NULL);
	b.cpu[0] = 1;
	assert_int_equal(dev_read(&b, 0), 1);
	b.cpu[0] = 2;
	assert_int_equal(*(const uint8_t *)dma_read(b.cache, b.at, 64, tcm), 2);
	b.dma_cpu[5] = 3;
	assert_ptr_equal(dma_read(b.cache, b.dma_at, 64, tcm), tcm);
	assert_int_equal(tcm[5], 3);
	assert_null(dma_read(b.cache, b.dma_at, 8193, tcm));
	next(&b, 2);
	assert_int_equal(b.counters.dma_bytes, 128);
	bench_close(&b);
}

static void dma_buffers_have_no_views(void **state)
{
	for (unsigned level = 0; level < COHERENCE_COUNT; level++) {
		struct bench b;
		struct err e = { 0 };

		bench_open(&b, (enum coherence)level, 0, NULL);
		assert_null(view_read(b.cache, b.dma_at, 64));
		assert_null(view_write(b.cache, b.dma_at, 64));
		assert_int_not_equal(
			cache_reaches(b.cache, b.dma_at, 64, &e), 0);
		if (!strstr(e.text, "test:dma"))
			fail_msg("'%s' does not name the buffer", e.text);
		assert_int_equal(cache_reaches(b.cache, b.at, 8192, &e), 0);
		assert_int_equal(cache_reaches(b.cache, 0, 64, &e), -EFAULT);
		assert_non_null(strstr(e.text, "address 0x0"));
		bench_close(&b);
	}
}

static void evictor_writes_back_early(void **state)
{
	struct bench b;
	unsigned early = 0;

	bench_open(&b, COHERENCE_CHECK, harness_seed(), NULL);
	dev_write(&b, 0, 4096, 7);
	cache_operator(b.cache, "one", 0);
	for (unsigned i = 0; i < 64; i++)
		early += b.cpu[i * 64] == 7;
	print_message("%u of 64 lines came early\n", early);
	assert_in_range(early, 1, 63);
	cache_clean(b.cache, b.at, 4096);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(b.cpu[i], 7);
	/* A clean of a line that was already evicted is not reported as
	 * needless. */
	dev_write(&b, 0, 64, 8);
	for (unsigned i = 0; i < 10 && b.cpu[0] != 8; i++)
		cache_operator(b.cache, "two", 0);
	assert_int_equal(b.cpu[0], 8);
	cache_clean(b.cache, b.at, 64);
	next(&b, 2);
	assert_int_equal(b.counters.evicted_lines, early + 1);
	bench_close(&b);
	assert_int_equal(b.n_reports, 0);
}

/* ---- check: each violation is reported ----------------------------------- */

static void reports_a_stale_read(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	view_read(b.cache, b.at, 1024);
	next(&b, 2);
	cache_operator(b.cache, "rmsnorm", 3);
	memset(b.cpu + 128, 1, 192); /* three lines, without an invalidation */
	view_read(b.cache, b.at, 130);
	view_read(b.cache, b.at, 1024);
	view_read(b.cache, b.at, 1024); /* no new report: the same bytes */
	next(&b, 3);
	said(&b, 0, "stale read: test:io", "[128, 130)", "rmsnorm, layer 3");
	said(&b, 0, "request 1 loaded", "CPU bracket unknown",
		"device request 2");
	/* the report of the second stale range counts as a repeat of the first
	 * report */
	assert_int_equal(b.counters.violations, 2);
	if (strncmp(b.text, b.report[0], strlen(b.text)))
		fail_msg("got '%s', not the beginning of '%s'", b.text,
			b.report[0]);
	bench_close(&b);
	said(&b, 1, "1 more like this", "in test:io", "stale read in rmsnorm");
	assert_int_equal(b.n_reports, 2);
}

static void reports_a_dropped_invalidate(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, "drop-invalidate:test:io#2");
	for (uint32_t seq = 1; seq <= 3; seq++) {
		b.cpu[0] = (uint8_t)seq;
		cache_invalidate(b.cache, b.at, 64, seq, 0);
		assert_int_equal(dev_read(&b, 0), seq == 2 ? 1 : seq);
		next(&b, seq + 1);
	}
	bench_close(&b);
	said(&b, 0, "stale read: test:io", "[0, 1)", "CPU bracket 2");
	assert_int_equal(b.n_reports, 1);
}

/* The fault omits the invalidation and also hides from the checker that the CPU
 * has written. Only the changed bytes show the write. */
static void detects_a_write_without_a_bracket(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, "drop-word:test:io#2");
	for (uint32_t seq = 1; seq <= 3; seq++) {
		b.cpu[0] = (uint8_t)seq;
		cache_invalidate(b.cache, b.at, 64, seq, 0);
		assert_int_equal(dev_read(&b, 0), seq == 2 ? 1 : seq);
		next(&b, seq + 1);
	}
	bench_close(&b);
	said(&b, 0, "stale read: test:io", "[0, 1)", "CPU bracket unknown");
	assert_int_equal(b.n_reports, 1);
}

/* The second of two cleans is left out: memory keeps the first value. */
static void a_missing_clean_keeps_the_old_value(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_STRICT, 0, "drop-clean:test:io#2");
	dev_write(&b, 0, 64, 7);
	cache_clean(b.cache, b.at, 64);
	dev_write(&b, 0, 64, 8);
	cache_clean(b.cache, b.at, 64);
	assert_int_equal(b.cpu[0], 7);
	cache_clean(b.cache, b.at, 64);
	assert_int_equal(b.cpu[0], 8);
	bench_close(&b);
}

/* A missing invalidation is reported even if the CPU did not change the bytes.
 */
static void reports_a_dropped_invalidate_of_equal_bytes(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, "drop-invalidate");
	dev_read(&b, 0);
	cache_invalidate(b.cache, b.at, 64, 4, 0);
	dev_read(&b, 0);
	bench_close(&b);
	said(&b, 0, "stale read: test:io", "[0, 1)", "CPU bracket 4");
}

static void reports_a_lost_cpu_write(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_operator(b.cache, "kv clean", 5);
	dev_write(&b, 64, 32, 7);
	dev_write(&b, 192, 32, 7);
	b.cpu[64 + 31] = 5;
	cache_clean(b.cache, b.at, 256);
	next(&b, 2);
	said(&b, 0, "lost write: test:io", "[64, 128)", "kv clean, layer 5");
	assert_int_equal(b.counters.violations, 1);
	bench_close(&b);
	assert_int_equal(b.n_reports, 1);
}

static void reports_a_lost_device_write(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	dev_write(&b, 64, 128, 7);
	cache_invalidate(b.cache, b.at, 256, 1, 0);
	next(&b, 2);
	said(&b, 0, "lost write: test:io", "[64, 192)", "clean it first");
	cache_operator(b.cache, "kv write", 1);
	dev_write(&b, 8192 - 64, 64, 7); /* not cleaned before the unmap */
	bench_close(&b);
	said(&b, 1, "lost write: test:io", "[8128, 8192)", "device request 2");
	assert_int_equal(b.n_reports, 2);
}

static void reports_dma_over_dirty_lines(void **state)
{
	uint8_t tcm[256];
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	dev_write(&b, 128, 64, 7);
	cache_operator(b.cache, "gate", 1);
	dma_read(b.cache, b.at, 128, tcm); /* reads no dirty line: allowed */
	dma_read(b.cache, b.at, 256, tcm);
	cache_clean(b.cache, b.at + 128, 64);
	dma_read(b.cache, b.at, 256, tcm); /* no longer dirty: allowed */
	bench_close(&b);
	said(&b, 0, "DMA over dirty lines: test:io", "[128, 192)",
		"gate, layer 1");
	assert_int_equal(b.n_reports, 1);
}

/* Tests a buffer that is cached in the window and that DMA also reads in the
 * extended region. */
static void reports_dma_over_dirty_extended_lines(void **state)
{
	struct window_space space = { 0 };
	struct err e = { 0 };
	uint8_t tcm[256];
	struct bench b;
	uint64_t at;
	int fd;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(pwrite(fd, "old", 4, 128), 4);
	assert_ok(extended_map(&b.extended, &b.m->share, fd, &at, &space, &e),
		&e);
	close(fd);
	dev_write(&b, 128, 4, 0xee);
	cache_operator(b.cache, "gate", 1);
	assert_ptr_equal(dma_read(b.cache, EXTENDED_BASE + at, 256, tcm), tcm);
	assert_string_equal((char *)tcm + 128, "old");
	assert_int_equal(cache_dma(b.cache).extended, 256);
	cache_operator(b.cache, "up", 1);
	/* reads no dirty line */
	dma_read(b.cache, EXTENDED_BASE + at, 128, tcm);
	cache_clean(b.cache, b.at + 128, 64);
	/* no longer dirty: allowed */
	dma_read(b.cache, EXTENDED_BASE + at, 256, tcm);
	assert_null(dma_read(b.cache, EXTENDED_BASE + at, 8193, tcm));
	bench_close(&b);
	said(&b, 0, "DMA over dirty lines: test:io", "[128, 192)",
		"gate, layer 1");
	assert_int_equal(b.n_reports, 1);
}

static void reports_needless_maintenance(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	cache_invalidate(b.cache, b.at, 128, 1, 0);
	/* allowed: the same request invalidates these lines a second time */
	cache_invalidate(b.cache, b.at + 64, 64, 1, 0);
	next(&b, 2);
	/* allowed: half of the lines are new */
	cache_invalidate(b.cache, b.at, 256, 1, 0);
	next(&b, 3);
	/* allowed: write 2 of the CPU is new */
	cache_invalidate(b.cache, b.at, 256, 2, 0);
	next(&b, 4);
	assert_int_equal(b.n_reports, 0);
	cache_invalidate(b.cache, b.at + 64, 64, 2, 0);
	next(&b, 5);
	said(&b, 0, "needless maintenance: test:io", "[64, 128)",
		"invalidated");
	dev_write(&b, 0, 4, 1);
	cache_clean(b.cache, b.at, 256);
	next(&b, 6);
	assert_int_equal(b.n_reports, 1);
	cache_clean(b.cache, b.at, 256);
	next(&b, 7);
	said(&b, 1, "needless maintenance: test:io", "[0, 256)", "cleaned");
	bench_close(&b);
	assert_int_equal(b.n_reports, 2);
}

/* A report is printed once. Its repeats are only counted, and one line states
 * their number. */
static void repeated_reports_are_counted(void **state)
{
	struct bench b;

	bench_open(&b, COHERENCE_CHECK, 0, NULL);
	view_read(b.cache, b.at, 8192);
	memset(b.cpu, 1, 8192);
	for (unsigned i = 0; i < 128; i += 2)
		dev_read(&b, i * 64);
	next(&b, 2);
	assert_int_equal(b.counters.violations, 64);
	assert_int_equal(b.n_reports, 1);
	assert_int_equal(cache_violations(b.cache), 64);
	bench_close(&b);
	assert_int_equal(b.n_reports, 2);
	assert_string_equal(b.report[1],
		"... and 63 more like this in test:io (stale read in request)");
}

/* ---- through the whole device -------------------------------------------- */

/* If an invalidate of the io buffer is left out, level strict computes with old
 * rows, and level check names the buffer. */
static void a_dropped_invalidate_changes_the_output(void **state)
{
	struct rig_opts o = { .seed = harness_seed(),
		.precision = WIRE_F16_KV16 };
	float in[8 * 64], want[8 * 64], out[8 * 64];
	struct rig_batch b;
	struct rig r;

	for (unsigned level = COHERENCE_OFF; level < COHERENCE_COUNT; level++) {
		o.coherence = (enum coherence)level;
		o.fault = level ? "drop-invalidate:tandem:io" : NULL;
		rig_open(&r, &o);
		for (unsigned at = 0; at < 8; at += 4) {
			for (unsigned i = 0; i < 4 * 64; i++)
				in[at * 64 + i] = rig_random(o.seed, at, i);
			rig_chain(&b, at, 4);
			assert_int_equal(
				rig_run(&r, &b, in + at * 64, out + at * 64),
				0);
		}
		if (level == COHERENCE_OFF)
			memcpy(want, out, sizeof(out));
		else
			assert_memory_not_equal(out, want, sizeof(out));
		if (level == COHERENCE_CHECK) {
			assert_true(r.n_reports > 0);
			if (!strstr(r.report[0], "stale read: tandem:io"))
				fail_msg("'%s'", r.report[0]);
			assert_true(r.done.counters.violations > 0);
			assert_true(device_violations(r.dev) > 0);
			if (!strstr(r.done.text, "tandem:io"))
				fail_msg("done says '%s'", r.done.text);
		} else {
			assert_int_equal(r.n_reports, 0);
		}
		rig_close(&r);
	}
}

static void unknown_rules_are_refused(void **state)
{
	struct cache_config config = { 0 };
	struct cache *c = NULL;
	struct err e = { 0 };

	config.coherence.level = COHERENCE_COUNT;
	assert_int_equal(cache_open(&c, &config, NULL, &e), -EINVAL);
	assert_string_equal(
		e.text, "coherence level 3 is unknown; it must be below 3");
	config.coherence.level = COHERENCE_OFF;
	config.coherence.contract = COHERENCE_TWO_LEVELS + 1;
	assert_int_equal(cache_open(&c, &config, NULL, &e), -EINVAL);
	assert_string_equal(
		e.text, "cache rules (contract) 3 are unknown; must be 1 or 2");
	assert_null(c);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(off_aliases_and_counts),
	cmocka_unit_test(strict_keeps_old_bytes),
	cmocka_unit_test(strict_keeps_writes_private),
	cmocka_unit_test(strict_clobbers_false_sharing),
	cmocka_unit_test(strict_loses_invalidated_writes),
	cmocka_unit_test(dma_bypasses_the_cache),
	cmocka_unit_test(dma_buffers_have_no_views),
	cmocka_unit_test(unknown_rules_are_refused),
	cmocka_unit_test(evictor_writes_back_early),
	cmocka_unit_test(reports_a_stale_read),
	cmocka_unit_test(reports_a_dropped_invalidate),
	cmocka_unit_test(detects_a_write_without_a_bracket),
	cmocka_unit_test(a_missing_clean_keeps_the_old_value),
	cmocka_unit_test(reports_a_dropped_invalidate_of_equal_bytes),
	cmocka_unit_test(reports_a_lost_cpu_write),
	cmocka_unit_test(reports_a_lost_device_write),
	cmocka_unit_test(reports_dma_over_dirty_lines),
	cmocka_unit_test(reports_dma_over_dirty_extended_lines),
	cmocka_unit_test(reports_needless_maintenance),
	cmocka_unit_test(repeated_reports_are_counted),
	cmocka_unit_test(a_dropped_invalidate_changes_the_output),
};

TEST_FILE(tests)
