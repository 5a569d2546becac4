#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "device/fault.h"
#include "device/rehearse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *said;

static int play(const char *text, const char *plan, struct err *e)
{
	char *copy = strdup(text);
	FILE *in = fmemopen(copy, strlen(copy), "r");
	size_t len;
	FILE *out;
	struct fault fault;
	int ret;

	free(said);
	out = open_memstream(&said, &len);
	assert_non_null(in);
	assert_non_null(out);
	assert_ok(fault_parse(&fault, plan, e), e);
	ret = rehearse(in, out, &fault, e);
	fclose(in);
	fclose(out);
	free(copy);
	return ret;
}

static void says(const char *text, const char *plan, const char *want)
{
	struct err e = { 0 };

	assert_ok(play(text, plan, &e), &e);
	assert_string_equal(said, want);
}

/* Upkeep as the contract has it: memory, whoever looks. */
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
			    "look 16 3\n"
			    "end\n";

static void test_right(void **state)
{
	says(right, NULL,
		"= 64 65\n"
		"= 64 5 66\n"
		"= 0 9 a 0\n"
		"= 0 9 a\n"
		".\n");
}

static void test_forgotten(void **state)
{
	struct err e = { 0 };

	assert_ok(play(right, "drop-invalidate:rehearsed", &e), &e);
	assert_non_null(strstr(said, "= 64 65 66\n"));
	assert_non_null(strstr(said, "! stale read: rehearsed [0, 12) in "));
	assert_non_null(strstr(said, "!! missing: invalidate of rehearsed"));
	assert_ok(play(right, "drop-clean:rehearsed", &e), &e);
	assert_non_null(strstr(said, "= 0 0 0 0\n"));
	assert_non_null(strstr(said, "! DMA over dirty lines: rehearsed"));
	assert_non_null(strstr(said, "! lost write: rehearsed"));
}

/* A text begins anew: with memory, faults and reports of its own. */
static void test_texts(void **state)
{
	says("begin strict 0 1\nwrite 0 1 3\nend\n"
	     "begin off 0 1\nread 0 1\nend\nend\n",
		NULL, ".\n= 0\n.\n.\n");
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "read 0 1\nend\n", "before a begin" },
		{ "begin loud 0 1\nend\n", "a level" },
		{ "begin check 0 0\nend\n", "a level" },
		{ "begin check 0 1025\nend\n", "a level" },
		{ "begin check 0 1\nread 16 1\nend\n", "outside" },
		{ "begin check 0 1\nread 15 2\nend\n", "outside" },
		{ "begin check 0 1\nread 0 0\nend\n", "outside" },
		{ "begin check 0 1\nread -1 1\nend\n", "outside" },
		{ "begin check 0 1\nread 1 18446744073709551615\nend\n",
			"outside" },
		{ "begin check 0 1\npeel 0 1\nend\n", "no 'peel'" },
		{ "begin check 0 1\nread\nend\n", "not understood" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		assert_int_equal(play(bad[i].text, NULL, &e), -EINVAL);
		if (!strstr(e.text, bad[i].says) || said[0] != '?')
			fail_msg("'%s': '%s'", bad[i].text, e.text);
	}
	/* Without its end nothing of it is done. */
	says("begin check 0 1\nread 0 1\n", NULL, "");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_right),
	cmocka_unit_test(test_forgotten),
	cmocka_unit_test(test_texts),
	cmocka_unit_test(test_refused),
};

TEST_FILE(tests)
