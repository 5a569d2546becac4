#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "device/fault.h"
#include "tests/stress/rehearse.h"

#include <errno.h>
#include <string.h>

static struct strbuf said;

static int play(const char *text, const char *plan, struct err *e)
{
	struct fault fault;

	strbuf_reset(&said);
	assert_ok(fault_parse(&fault, plan, e), e);
	return rehearse(text, &fault, &said, e);
}

static void says(const char *text, const char *plan, const char *want)
{
	struct err e = { 0 };

	assert_ok(play(text, plan, &e), &e);
	assert_string_equal(said.data, want);
}

/* With correct maintenance, CPU and device read the newest bytes. */
static const char right[] = "begin check 0 2\n"
			    "cpu 0 4 100\n"
			    "read 0 2\n"
			    "request 2 0\n"
			    "cpu 1 1 5\n"
			    "invalidate 0 16 1\n"
			    "read 0 3\n"
			    "write 17 2 9\n"
			    "clean 16 16\n"
			    "dma 16 4\n"
			    "request 3 0\n"
			    "look 16 3\n";

static void test_correct_maintenance(void **state)
{
	says(right, NULL,
		"= 64 65\n"
		"= 64 5 66\n"
		"= 0 9 a 0\n"
		"= 0 9 a\n");
}

static void test_missing_maintenance(void **state)
{
	struct err e = { 0 };

	assert_ok(play(right, "drop-invalidate:rehearsed", &e), &e);
	assert_non_null(strstr(said.data, "= 64 65 66\n"));
	assert_non_null(
		strstr(said.data, "! stale read: rehearsed [0, 12) in "));
	assert_non_null(
		strstr(said.data, "!! missing: invalidate of rehearsed"));
	assert_ok(play(right, "drop-clean:rehearsed", &e), &e);
	assert_non_null(strstr(said.data, "= 0 0 0 0\n"));
	assert_non_null(strstr(said.data, "! DMA over dirty lines: rehearsed"));
	assert_non_null(strstr(said.data, "! lost write: rehearsed"));
}

/* Each `begin` has its own memory, faults and reports. */
static void test_begins(void **state)
{
	says("begin strict 0 1\nwrite 0 1 3\n"
	     "begin off 0 1\nread 0 1\n",
		NULL, "= 0\n");
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "read 0 1\n", "before 'begin'" },
		{ "begin loud 0 1\n", "a coherence level" },
		{ "begin check 0 0\n", "a coherence level" },
		{ "begin check 0 1025\n", "a coherence level" },
		{ "begin check 0 1\nread 16 1\n", "outside" },
		{ "begin check 0 1\nread 15 2\n", "outside" },
		{ "begin check 0 1\nread 0 0\n", "outside" },
		{ "begin check 0 1\nread -1 1\n", "outside" },
		{ "begin check 0 1\nread 1 18446744073709551615\n", "outside" },
		{ "begin check 0 1\npeel 0 1\n", "no 'peel'" },
		{ "begin check 0 1\nread\n", "not a known step" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		assert_int_equal(play(bad[i].text, NULL, &e), -EINVAL);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s': '%s'", bad[i].text, e.text);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_correct_maintenance),
	cmocka_unit_test(test_missing_maintenance),
	cmocka_unit_test(test_begins),
	cmocka_unit_test(test_refused),
};

TEST_FILE(tests)
