/* Scoring of outputs as right or wrong. */
#include "base/checked.h"
#include "host/eval/eval_check.h"
#include "host/eval/eval_items.h"
#include "tests/harness.h"

#include <jansson.h>
#include <string.h>

struct mark {
	const char *output, *answer;
	bool right;
};

static bool right(enum eval_check check, const char *output, const char *answer)
{
	const struct eval_item item = { .check = check, .answer = answer };

	return eval_right(&item, output, strlen(output));
}

static void check_marks(
	enum eval_check check, const struct mark *mark, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (right(check, mark[i].output, mark[i].answer) !=
			mark[i].right)
			fail_msg("'%s' for '%s' is marked %s", mark[i].output,
				mark[i].answer,
				mark[i].right ? "wrong" : "right");
}

static void test_exact(void **state)
{
	static const struct mark marks[] = {
		{ " Anna.", " Anna.", true },
		{ "Anna.", " Anna.", true },
		{ " Anna.  \nBob.", " Anna.\nCarl.", true },
		{ "\t Anna.\r\n", " Anna.", true },
		{ " Anna", " Anna.", false },
		{ " Anna..", " Anna.", false },
		{ " anna.", " Anna.", false },
		{ "\n Anna.", " Anna.", false },
		{ " An  na", " An na", false },
		{ "", " Anna.", false },
		{ "", "", false },
		{ " \n", " \nx", false },
	};

	check_marks(EVAL_EXACT, marks, ARRAY_LEN(marks));
}

static void test_number(void **state)
{
	static const struct mark marks[] = {
		{ " 3 + 4 = 7.\nThe answer is 7.", "The answer is 7.", true },
		{ " 7", "The answer is 7.", true },
		{ " 007 apples", "7", true },
		{ " 7 or 8", "7", false },
		{ " The answer is 17.", "7", false },
		{ " -7", "7", false },
		{ " -7", "-7", true },
		{ " 5-3", "3", true },
		{ " 5 -3", "-3", true },
		{ " 5--3", "-3", true },
		{ " 7.", "7", true },
		{ " 1.5", "5", true }, /* only integers are compared */
		{ " seven", "7", false },
		{ "", "7", false },
		{ " 7", "none", false },
		{ "", "", false },
		{ " 123456789012345678", "123456789012345678", true },
		{ " 123456789012345678", "123456789012345679", false },
		{ " 1234567890123456789", "1234567890123456789", false },
		{ " 0", "-0", true },
	};

	check_marks(EVAL_NUMBER, marks, ARRAY_LEN(marks));
}

static void test_text(void **state)
{
	static const struct mark marks[] = {
		{ " def f(a):\n    return a", " def f(a):\n    return a",
			true },
		{ "def f(a):\n\treturn a\n", " def f(a):\n    return a", true },
		{ " def f(a): return a", " def f(a):\n    return a", true },
		{ " def f(a):return a", " def f(a): return a", false },
		{ " def f(a): return a b", " def f(a): return a", false },
		{ " def f(a): return", " def f(a): return a", false },
		{ " a b", " a bc", false },
		{ " a bc", " a b", false },
		{ "", " a", false },
		{ "", "", false },
		{ " ", " ", false },
	};

	check_marks(EVAL_TEXT, marks, ARRAY_LEN(marks));
}

static void test_facts(void **state)
{
	struct eval_item item = { .check = EVAL_FACTS, .answer = "" };
	static const struct {
		const char *output;
		bool right;
	} marks[] = {
		{ "the grey coat and Max", true },
		{ "Max's grey coats", true },
		{ "Max", false },
		{ "grey  coat, Max", false },
		{ "Grey coat, Max", false },
		{ "", false },
	};
	json_t *facts = json_pack("[ss]", "grey coat", "Max");

	item.facts = facts;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++)
		assert_int_equal(eval_right(&item, marks[i].output,
					 strlen(marks[i].output)),
			marks[i].right);
	json_decref(facts);
}

/* An output may have any bytes, or be empty. */
static void test_any_bytes(void **state)
{
	struct eval_item item = { .answer = " a" };

	for (int check = EVAL_EXACT; check <= EVAL_TEXT; check++) {
		item.check = (enum eval_check)check;
		assert_false(eval_right(&item, NULL, 0));
		assert_false(eval_right(&item, "a\0", 2));
	}
	item.check = EVAL_NUMBER;
	item.answer = "7";
	assert_true(eval_right(&item, "\0\xff 7\0", 5));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_exact),
	cmocka_unit_test(test_number),
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_facts),
	cmocka_unit_test(test_any_bytes),
};

TEST_FILE(tests)
