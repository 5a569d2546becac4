#include "tests/harness.h"

#include "shm/coherence/coherence_report.h"
#include "tests/device/cache_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char report_path[32], rules_path[32];

static void make(char path[32])
{
	int fd;

	memcpy(path, "/tmp/tandem-coherence-XXXXXX", 29);
	fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
}

static void write_rules(const char *text)
{
	FILE *f;

	make(rules_path);
	f = fopen(rules_path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Read the lines of a file. The lines are valid until the next call. */
static unsigned lines_of(const char *path, char *line[], unsigned max)
{
	static char text[1 << 16];
	FILE *f = fopen(path, "r");
	unsigned n = 0;
	size_t len;

	assert_non_null(f);
	len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = '\0';
	for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
		assert_true(n < max);
		*end = '\0';
		line[n++] = at;
	}
	return n;
}

static struct coherence_report *open_report(
	const char *path, const char *suppress)
{
	struct coherence_report *r;
	struct err e = { 0 };

	assert_ok(coherence_report_open(&r, path, suppress, &e), &e);
	return r;
}

static void close_report(struct coherence_report *r)
{
	struct err e = { 0 };

	assert_ok(coherence_report_close(r, &e), &e);
}

static void a_line_has_all_members(void **state)
{
	struct coherence_report *r;
	struct bench b;
	char *line[8];

	make(report_path);
	r = open_report(report_path, NULL);
	bench_open_with(&b, COHERENCE_CHECK, 0, "drop-invalidate:test:io#2", r);
	snprintf(b.wire.name[4], WIRE_NAME_BYTES, "write_batch");
	for (uint32_t seq = 1; seq <= 2; seq++) {
		b.cpu[3] = (uint8_t)seq;
		cache_operator(b.cache, "sync", -1);
		cache_invalidate(b.cache, b.at, 8, seq, 5);
		cache_operator(b.cache, "rows", -1);
		view_read(b.cache, b.at, 8);
		next(&b, seq + 1);
	}
	cache_invalidate(b.cache, b.at, 8, 2, 0);
	next(&b, 4);
	cache_invalidate(b.cache, b.at, 8, 2, 0);
	next(&b, 5);
	bench_close(&b);
	close_report(r);
	assert_int_equal(lines_of(report_path, line, 8), 4);
	assert_string_equal(line[0],
		"{\"version\":1,\"report\":\"left out\",\"call\":\"invalidate\""
		",\"number\":2,\"buffer\":\"test:io\",\"site\":\"write_batch\","
		"\"from\":0,\"to\":8,\"bracket\":2,\"operator\":\"sync\","
		"\"request\":2,\"held_lines\":1,\"differing_lines\":1,"
		"\"written_lines\":0}");
	assert_string_equal(line[1],
		"{\"version\":1,\"report\":\"violation\",\"kind\":\"stale "
		"read\",\"buffer\":\"test:io\",\"from\":0,\"to\":8,"
		"\"operator\":\"rows\",\"request\":2,\"cpu\":{\"bracket\":2,"
		"\"function\":\"write_batch\"},\"before\":{\"wrote\":false,"
		"\"request\":1,\"operator\":\"rows\"},\"values\":{\"at\":3,"
		"\"cache\":\"0100000000000000\","
		"\"memory\":\"0200000000000000\",\"evicted_bytes\":0},"
		"\"missing\":\"invalidate of test:io [0, 8) before rows\"}");
	assert_string_equal(line[2],
		"{\"version\":1,\"report\":\"violation\",\"kind\":\"needless "
		"maintenance\",\"buffer\":\"test:io\",\"from\":0,\"to\":8,"
		"\"operator\":\"request\",\"request\":4,\"cpu\":{\"bracket\":2}"
		",\"before\":{\"wrote\":false,\"request\":3},"
		"\"needless_bytes\":64,\"needless_us\":0.0064000000000000003}");
	assert_string_equal(line[3],
		"{\"version\":1,\"report\":\"summary\",\"violations\":2,"
		"\"suppressed\":0,\"kinds\":{\"stale read\":1,\"lost "
		"write\":0,\"torn line\":0,\"DMA over dirty lines\":0,"
		"\"read before a wait\":0,\"write before a wait\":0,"
		"\"missing wait\":0,\"write "
		"to a held buffer\":0,\"read of a held buffer\":0,\"needless "
		"maintenance\":1,\"needless wait\":0},\"sites\":[{\"call\":\"word\",\"buffer\":"
		"\"test:io\",\"site\":\"write_batch\",\"calls\":2,\"first\":1,"
		"\"last\":2},{\"call\":\"invalidate\",\"buffer\":\"test:io\","
		"\"site\":\"write_batch\",\"calls\":2,\"first\":1,\"last\":2},"
		"{\"call\":\"word\",\"buffer\":\"test:io\",\"site\":"
		"\"request\",\"calls\":2,\"first\":3,\"last\":4},{\"call\":"
		"\"invalidate\",\"buffer\":\"test:io\",\"site\":\"request\","
		"\"calls\":2,\"first\":3,\"last\":4}]}");
	unlink(report_path);
}

/* Cause a lost write and a stale read under these suppression rules. Returns
 * the number of violations that the device counts. */
static uint64_t counted(const char *rules, char *summary, size_t size)
{
	struct coherence_report *r;
	uint64_t violations;
	struct bench b;
	char *line[8];
	unsigned n;

	make(report_path);
	write_rules(rules);
	r = open_report(report_path, rules_path);
	bench_open_with(&b, COHERENCE_CHECK, 0, NULL, r);
	dev_read(&b, 256);
	cache_operator(b.cache, "kv write", 3);
	dev_write(&b, 0, 64, 1);
	next(&b, 2);
	b.cpu[256] = 1;
	cache_operator(b.cache, "rows", -1);
	dev_read(&b, 256);
	next(&b, 3);
	violations = cache_violations(b.cache);
	assert_int_equal(b.n_reports, violations);
	bench_close(&b);
	close_report(r);
	n = lines_of(report_path, line, 8);
	assert_int_equal(n, violations + 1);
	snprintf(summary, size, "%.64s", line[n - 1]);
	unlink(report_path);
	unlink(rules_path);
	return violations;
}

static void rules_suppress_reports(void **state)
{
	static const struct {
		const char *rules;
		unsigned left;
	} row[] = {
		{ "", 2 },
		{ "# stale read: *\n\n", 2 },
		{ "stale read: *\n", 1 },
		{ "lost write: test:io: completion: -  # known\n", 1 },
		{ "lost write: test:io: kv write*\n", 2 },
		{ "*\n", 0 },
		{ "only stale read: *\n", 1 },
		{ "only *: test:io: *\nstale read: *\n", 1 },
		{ "only *: test:other: *\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		char summary[80], want[80];
		uint64_t got = counted(row[i].rules, summary, sizeof(summary));

		if (got != row[i].left)
			fail_msg("rules '%s' leave %u of 2, not %u",
				row[i].rules, (unsigned)got, row[i].left);
		snprintf(want, sizeof(want),
			"\"violations\":%u,\"suppressed\":%u", row[i].left,
			2 - row[i].left);
		if (!strstr(summary, want))
			fail_msg("'%s' does not say '%s'", summary, want);
	}
}

static void unusable_files_are_refused(void **state)
{
	struct coherence_report *r;
	struct err e = { 0 };

	assert_int_not_equal(
		coherence_report_open(&r, "/nonexistent/file", NULL, &e), 0);
	if (!strstr(e.text, "'/nonexistent/file' for coherence reports"))
		fail_msg("'%s'", e.text);
	assert_int_not_equal(
		coherence_report_open(&r, NULL, "/nonexistent/rules", &e), 0);
	if (!strstr(e.text, "suppressions '/nonexistent/rules'"))
		fail_msg("'%s'", e.text);
}

/* If the disk is full, closing the report fails. */
static void a_failed_write_is_reported(void **state)
{
	struct coherence_report *r;
	struct err e = { 0 };

	r = open_report("/dev/full", NULL);
	assert_int_equal(coherence_report_close(r, &e), -EIO);
	if (!strstr(e.text, "could not be written to '/dev/full'"))
		fail_msg("'%s'", e.text);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_line_has_all_members),
	cmocka_unit_test(rules_suppress_reports),
	cmocka_unit_test(unusable_files_are_refused),
	cmocka_unit_test(a_failed_write_is_reported),
};

TEST_FILE(tests)
