/* Files of evaluation items, well-formed and malformed, and their names. */
#include "base/checked.h"
#include "base/err.h"
#include "host/eval/eval_items.h"
#include "host/eval/eval_tasks.h"
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

static int read_as(struct eval_items *items, const char *text,
	enum eval_need need, struct err *e)
{
	return eval_items_read(items, file_of(text, strlen(text)), need, e);
}

static int read_text(struct eval_items *items, const char *text, struct err *e)
{
	return read_as(items, text, EVAL_NEED_ANSWERS, e);
}

/* Members that every item has. */
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

/* A malformed third line is refused with its line number and the reason. */
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
		{ "{\"id\":7}", "member 'id' is not a string" },
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
			"member 'facts' is not a list" },
		{ "{" MEMBERS "\"check\":\"facts\",\"facts\":[\"x\",7]}",
			"'facts': element 2" },
		{ "{" MEMBERS "\"check\":\"facts\",\"facts\":[\"\"]}",
			"'facts': element 1" },
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
	assert_int_equal(eval_items_read(&items, "/nonexistent/x.jsonl",
				 EVAL_NEED_ANSWERS, &e),
		-ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/x.jsonl"));
	eval_items_release(&items);
}

/* A NUL byte in the file is an error. */
static void test_nul(void **state)
{
	static const char text[] = "{" MEMBERS "\"check\":\"exact\"}\n\0\n";
	struct eval_items items;
	struct err e = { 0 };

	assert_int_equal(
		eval_items_read(&items, file_of(text, sizeof(text) - 1),
			EVAL_NEED_ANSWERS, &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "line 2"));
	eval_items_release(&items);
}

/* ---- prompts only -------------------------------------------------------- */

static const enum eval_need either[] = { EVAL_NEED_PROMPTS, EVAL_NEED_ANY };

static void check_item(const struct eval_items *items, size_t i, const char *id,
	const char *prompt)
{
	assert_string_equal(items->item[i].id, id);
	assert_string_equal(items->item[i].prompt, prompt);
	assert_null(items->item[i].answer);
}

static void test_plain_lines(void **state)
{
	static const char text[] = "\n Once upon \r\n\n\"two\"\n{\"a\": 1}\n"
				   "\xc3\xa9";

	for (size_t i = 0; i < ARRAY_LEN(either); i++) {
		struct eval_items items;
		struct err e = { 0 };

		assert_ok(read_as(&items, text, either[i], &e), &e);
		assert_int_equal(items.n, 4);
		assert_false(items.marked);
		check_item(&items, 0, "line-2", " Once upon ");
		check_item(&items, 1, "line-4", "\"two\"");
		check_item(&items, 2, "line-5", "{\"a\": 1}");
		check_item(&items, 3, "line-6", "\xc3\xa9");
		eval_items_release(&items);
	}
}

static void test_prompts_of_json(void **state)
{
	static const char text[] =
		"\n{\"prompt\":\"one\\ntwo\",\"level\":\"high\"}\n"
		"{\"prompt\":\"p\",\"id\":\"x\"}\n";

	for (size_t i = 0; i < ARRAY_LEN(either); i++) {
		struct eval_items items;
		struct err e = { 0 };

		assert_ok(read_as(&items, text, either[i], &e), &e);
		assert_int_equal(items.n, 2);
		assert_false(items.marked);
		check_item(&items, 0, "line-2", "one\ntwo");
		check_item(&items, 1, "x", "p");
		eval_items_release(&items);
	}
}

/* The prompt of a line with the member "turns" is the first turn, unless the
 * line also has the member "prompt". */
static void test_turns(void **state)
{
	static const char text[] =
		"{\"turns\":[\"one\",\"two\"]}\n"
		"{\"turns\":7,\"prompt\":\"p\",\"id\":\"x\"}\n";

	for (size_t i = 0; i < ARRAY_LEN(either); i++) {
		struct eval_items items;
		struct err e = { 0 };

		assert_ok(read_as(&items, text, either[i], &e), &e);
		assert_int_equal(items.n, 2);
		check_item(&items, 0, "line-1", "one");
		check_item(&items, 1, "x", "p");
		eval_items_release(&items);
	}
}

/* If at least one line has an answer, the file is a file of items, in which a
 * line without an answer is an error. If the caller needs only prompts, such a
 * line is no error. */
static void test_answers_among_prompts(void **state)
{
	static const char text[] = "{\"id\":\"b\",\"prompt\":\"p\"}\n"
				   "{" MEMBERS "\"check\":\"exact\"}\n";
	struct eval_items items;
	struct err e = { 0 };

	assert_int_equal(read_as(&items, text, EVAL_NEED_ANY, &e), -EINVAL);
	assert_non_null(strstr(e.text, "line 1: member 'answer' is missing"));
	eval_items_release(&items);
	assert_ok(read_as(&items, text, EVAL_NEED_PROMPTS, &e), &e);
	assert_int_equal(items.n, 2);
	assert_false(items.marked);
	check_item(&items, 1, "a", "p");
	eval_items_release(&items);
	assert_ok(read_as(&items, strchr(text, '\n'), EVAL_NEED_ANY, &e), &e);
	assert_true(items.marked);
	assert_string_equal(items.item[0].answer, " 7");
	eval_items_release(&items);
}

static void test_bad_prompts(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *what;
	} bad[] = {
		{ "", 0, "has no prompts" },
		{ " \n\r\n", 4, "has no prompts" },
		{ "a\nb\xff\n", 5, "line 2: not valid UTF-8" },
		{ "a\xc3", 2, "line 1: not valid UTF-8" },
		{ "a\nb\0c\n", 6, "line 2: the line contains a NUL byte" },
		{ "{}\n", 3, "line 1: member 'prompt' is missing" },
		{ "{\"prompt\":\"\"}", 13, "member 'prompt' is empty" },
		{ "{\"prompt\":\"p\",\"id\":7}", 21,
			"member 'id' is not a string" },
		{ "{\"prompt\":\"p\"}\nplain", 20, "line 2: not JSON" },
		{ "{\"turns\":[]}", 12, "member 'turns' is empty" },
		{ "{\"turns\":\"p\"}", 13, "member 'turns' is not a list" },
		{ "{\"turns\":[\"p\",\"\"]}", 18,
			"member 'turns': element 2 is not a string" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct eval_items items;
		struct err e = { 0 };

		assert_int_equal(eval_items_read(&items,
					 file_of(bad[i].text, bad[i].len),
					 EVAL_NEED_ANY, &e),
			-EINVAL);
		if (!strstr(e.text, bad[i].what))
			fail_msg("%zu: '%s'", i, e.text);
		eval_items_release(&items);
	}
}

/* A task is named after its file. The name of a file may be too long; a name
 * that is neither a file's nor that of a task is not found. */
static void test_names(void **state)
{
	static struct eval_tasks all;
	/* lengths of a folder's name and of a task's name */
	static const int length[][2] = { { PATH_MAX - 5, 1 },
		{ 1, NAME_MAX + 1 } };
	static char name[PATH_MAX + 8];
	struct err e = { 0 };

	assert_ok(eval_tasks_read(
			  &all, file_of("a\nb\n", 4), EVAL_NEED_PROMPTS, &e),
		&e);
	assert_int_equal(all.n, 1);
	assert_string_equal(all.task[0].name, "items");
	assert_int_equal(eval_task_first(&all.task[0], 0).n, 2);
	assert_int_equal(eval_task_first(&all.task[0], 1).n, 1);
	assert_int_equal(eval_task_first(&all.task[0], 3).n, 2);
	eval_tasks_release(&all);

	for (size_t i = 0; i < ARRAY_LEN(length); i++) {
		snprintf(name, sizeof(name), "%0*d/%0*d.txt", length[i][0], 0,
			length[i][1], 0);
		assert_int_equal(
			eval_tasks_read(&all, name, EVAL_NEED_PROMPTS, &e),
			-ENAMETOOLONG);
		assert_string_equal(e.text, "the file's name is too long");
		assert_int_equal(all.n, 0);
	}
	assert_int_equal(
		eval_tasks_read(&all, "no-such", EVAL_NEED_ANSWERS, &e),
		-ENOENT);
	assert_non_null(strstr(e.text, "items of task 'no-such'"));
	assert_int_equal(all.n, 0);
	eval_tasks_release(&all);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_well_formed),
	cmocka_unit_test(test_malformed),
	cmocka_unit_test(test_no_items),
	cmocka_unit_test(test_nul),
	cmocka_unit_test(test_plain_lines),
	cmocka_unit_test(test_prompts_of_json),
	cmocka_unit_test(test_turns),
	cmocka_unit_test(test_answers_among_prompts),
	cmocka_unit_test(test_bad_prompts),
	cmocka_unit_test(test_names),
};

TEST_FILE(tests)
