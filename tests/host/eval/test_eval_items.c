/* Files of items, well formed and not. */
#include "base/checked.h"
#include "base/err.h"
#include "host/eval/eval_items.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *file_of(const char *text, size_t len)
{
	static char path[5000];
	FILE *f;

	snprintf(path, sizeof(path), "%s/items.jsonl", harness_tmp());
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	fclose(f);
	return path;
}

static int read_text(struct eval_items *items, const char *text, struct err *e)
{
	return eval_items_read(items, file_of(text, strlen(text)), e);
}

/* The members that every item has. */
#define MEMBERS "\"id\":\"a\",\"prompt\":\"p\",\"answer\":\" 7\","

static void test_well_formed(void **state)
{
	static const char text[] =
		"{\"id\":\"qa-1\",\"prompt\":\"Read: \\u00e9\\nAnswer:\","
		"\"answer\":\" Anna.\",\"check\":\"exact\",\"facts\":[],"
		"\"level\":0}\n"
		"\n \t\r\n"
		"{" MEMBERS "\"check\":\"number\",\"level\":9,\"more\":[1]}\n"
		"{" MEMBERS "\"check\":\"text\"}\r\n"
		"{" MEMBERS "\"check\":\"facts\",\"facts\":[\"x\",\"y z\"]}";
	struct eval_items items;
	struct err e = { 0 };

	assert_ok(read_text(&items, text, &e), &e);
	assert_int_equal(items.n, 4);
	assert_string_equal(items.item[0].id, "qa-1");
	assert_string_equal(items.item[0].prompt, "Read: \xc3\xa9\nAnswer:");
	assert_string_equal(items.item[0].answer, " Anna.");
	assert_int_equal(items.item[0].check, EVAL_EXACT);
	assert_int_equal(items.item[0].level, 0);
	assert_int_equal(items.item[1].check, EVAL_NUMBER);
	assert_int_equal(items.item[1].level, 9);
	assert_int_equal(items.item[2].check, EVAL_TEXT);
	assert_null(items.item[2].facts);
	assert_int_equal(items.item[3].check, EVAL_FACTS);
	assert_non_null(items.item[3].facts);
	eval_items_release(&items);
	assert_int_equal(items.n, 0);
}

/* Refused with the line, which is the third, and what is wrong in it. */
static void test_malformed(void **state)
{
	static const struct {
		const char *line, *what;
	} bad[] = {
		{ "{", "not JSON" },
		{ "{} {}", "not JSON" },
		{ "[]", "not a JSON object" },
		{ "7", "not" },
		{ "{\"a\":1,\"a\":2}", "duplicate" },
		{ "{\"id\":\"a\\u0000\"}", "not JSON" },
		{ "{\"id\":\"\xff\"}", "not JSON" },
		{ "{}", "member 'id' is missing" },
		{ "{\"id\":7}", "member 'id' is no string" },
		{ "{\"id\":\"\"}", "member 'id' is empty" },
		{ "{\"id\":\"a\"}", "member 'prompt' is missing" },
		{ "{\"id\":\"a\",\"prompt\":\"p\"}",
			"member 'answer' is missing" },
		{ "{" MEMBERS "\"x\":1}", "member 'check' is missing" },
		{ "{" MEMBERS "\"check\":\"exactly\"}", "'exactly'" },
		{ "{" MEMBERS "\"check\":\"facts\"}",
			"member 'facts' is missing" },
		{ "{" MEMBERS "\"check\":\"facts\",\"facts\":[]}",
			"member 'facts' is empty" },
		{ "{" MEMBERS "\"check\":\"exact\",\"facts\":\"x\"}",
			"member 'facts' is no list" },
		{ "{" MEMBERS "\"check\":\"facts\",\"facts\":[\"x\",7]}",
			"'facts': number 2" },
		{ "{" MEMBERS "\"check\":\"facts\",\"facts\":[\"\"]}",
			"'facts': number 1" },
		{ "{" MEMBERS "\"check\":\"exact\",\"level\":10}", "'level'" },
		{ "{" MEMBERS "\"check\":\"exact\",\"level\":-1}", "'level'" },
		{ "{" MEMBERS "\"check\":\"exact\",\"level\":1.5}", "'level'" },
		{ "{\"id\":\"a\",\"prompt\":\"p\",\"answer\":\"x\","
		  "\"check\":\"number\"}",
			"no number" },
		{ "{\"id\":\"a\",\"prompt\":\"p\",\"answer\":\"\\nx\","
		  "\"check\":\"exact\"}",
			"empty first line" },
		{ "{\"id\":\"a\",\"prompt\":\"p\",\"answer\":\" \","
		  "\"check\":\"text\"}",
			"no text" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct eval_items items;
		struct err e = { 0 };
		char text[1000];

		snprintf(text, sizeof(text),
			"{" MEMBERS "\"check\":\"exact\"}\n\n%s\n{" MEMBERS
			"\"check\":\"exact\"}\n",
			bad[i].line);
		assert_int_equal(read_text(&items, text, &e), -EINVAL);
		if (!strstr(e.text, bad[i].what) ||
			!strstr(e.text, "items.jsonl', line 3: "))
			fail_msg("%s: '%s'", bad[i].line, e.text);
		eval_items_release(&items);
	}
}

static void test_no_items(void **state)
{
	struct eval_items items;
	struct err e = { 0 };

	assert_int_equal(read_text(&items, "\n\n", &e), -EINVAL);
	assert_non_null(strstr(e.text, "has no items"));
	eval_items_release(&items);
	assert_int_equal(read_text(&items, "", &e), -EINVAL);
	eval_items_release(&items);
	assert_int_equal(
		eval_items_read(&items, "/nonexistent/x.jsonl", &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/x.jsonl"));
	eval_items_release(&items);
}

/* A NUL in the file ends no line unseen. */
static void test_nul(void **state)
{
	static const char text[] = "{" MEMBERS "\"check\":\"exact\"}\n\0\n";
	struct eval_items items;
	struct err e = { 0 };

	assert_int_equal(
		eval_items_read(&items, file_of(text, sizeof(text) - 1), &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "line 2"));
	eval_items_release(&items);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_well_formed),
	cmocka_unit_test(test_malformed),
	cmocka_unit_test(test_no_items),
	cmocka_unit_test(test_nul),
};

TEST_MAIN(tests)
