/* Scoring of outputs as right or wrong. */
#include "base/checked.h"
#include "base/err.h"
#include "host/eval/eval_check.h"
#include "host/eval/eval_items.h"
#include "tests/harness.h"

#include <jansson.h>
#include <string.h>

struct mark {
	const char *output, *answer;
	bool right;
};

static bool is_right(const struct eval_item *item, const char *output, size_t n)
{
	struct err e;
	bool right;

	assert_ok(eval_check(item, output, n, &right, &e), &e);
	return right;
}

static bool right(enum eval_check check, const char *output, const char *answer)
{
	const struct eval_item item = { .check = check, .answer = answer };

	return is_right(&item, output, strlen(output));
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
		{ " 1.5", "5", false },
		{ " 25", "17.25", false },
		{ " 17.25", "17.25", true },
		{ " 17.250", "17.25", true },
		{ " 1,200", "1200", true },
		{ " 1200", "1,200", true },
		{ " 1,200", "200", false },
		{ " seven", "7", false },
		{ "", "7", false },
		{ " 7", "none", false },
		{ "", "", false },
		{ " 123456789012345678", "123456789012345678", true },
		{ " 123456789012345678", "123456789012345679", false },
		{ " 1234567890123456789", "1234567890123456789", true },
		{ " 0", "-0", true },
		{ "She makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18",
			"#### 18", true },
		{ "#### 18", "She makes $18.\n#### 18", true },
		{ "The answer is $18.", "#### 18", true },
		{ "The answer is $18.00.", "#### 18", true },
		{ "#### 70,000", "#### 70000", true },
		{ "#### 70000", "#### 70,000", true },
		{ "He made $70000 profit", "#### 70000", true },
		{ "#### -5", "#### -5", true },
		{ "#### 5", "#### -5", false },
		{ "#### 2,125", "#### 2125", true },
		{ "The profit is 12.5%", "#### 12.5", true },
		{ "#### 12", "#### 12.5", false },
		{ "#### 0.5", "#### .5", true },
		{ "#### 1/2", "#### 0.5", true },
		{ "#### 2/4", "#### 1/2", true },
		{ "#### 3 hours", "#### 3", true },
		{ "#### 3.0", "#### 3", true },
		{ "#### 03", "#### 3", true },
		{ "#### 1,2345", "#### 12345", false },
		{ "3 of 10,20", "#### 20", true },
		{ "The answer is 540 meters.", "#### 540", true },
		{ "**540**", "#### 540", true },
		{ "540\n\n", "#### 540", true },
		{ "\xe2\x82\xac 540", "#### 540", true },
		{ "x = 540", "#### 540", true },
	};

	check_marks(EVAL_NUMBER, marks, ARRAY_LEN(marks));
}

/* Score answers of the MATH data set, in the spellings that models use. */
static void test_boxed(void **state)
{
	static const struct mark marks[] = {
		{ "so \\boxed{18}", "\\boxed{18}", true },
		{ "18", "\\boxed{18}", false },
		{ "\\boxed{17} or \\boxed{18}", "\\boxed{18}", true },
		{ "\\boxed{18} or \\boxed{17}", "\\boxed{18}", false },
		{ "\\boxed{\\dfrac{1}{2}}", "\\boxed{\\frac{1}{2}}", true },
		{ "\\boxed{\\frac12}", "\\boxed{\\frac{1}{2}}", true },
		{ "\\boxed{0.5}", "\\boxed{\\frac{1}{2}}", true },
		{ "\\boxed{1/2}", "\\boxed{\\frac{1}{2}}", true },
		{ "\\boxed{\\frac{2}{4}}", "\\boxed{\\frac12}", true },
		{ "\\boxed{\\frac13}", "\\boxed{\\frac12}", false },
		{ "\\boxed{-\\frac{3}{4}}", "\\boxed{-0.75}", true },
		{ "\\boxed{\\frac{x}{2}}", "\\boxed{\\dfrac{x}{2}}", true },
		{ "\\boxed{\\frac{\\pi}{2}}", "\\boxed{\\dfrac {\\pi}{2}}",
			true },
		{ "\\boxed{\\frac{\\sqrt3}{2}}",
			"\\boxed{\\frac{\\sqrt{3}}{2}}", true },
		{ "\\boxed{2\\sqrt3}", "\\boxed{2\\sqrt{3}}", true },
		{ "\\boxed{\\sqrt{2}}", "\\boxed{\\sqrt{3}}", false },
		{ "\\boxed{10\\text{ cm}}", "\\boxed{10}", true },
		{ "\\boxed{10\\text{ cm}^2}", "\\boxed{10}", true },
		{ "\\boxed{10 \\mbox{ feet}}", "\\boxed{10}", true },
		{ "\\boxed{\\text{Evelyn}}", "\\boxed{Evelyn}", true },
		{ "\\boxed{\\text{(C)}}", "\\boxed{(C)}", true },
		{ "\\boxed{\\$32{,}348}", "\\boxed{32348}", true },
		{ "\\boxed{10,\\!080}", "\\boxed{10080}", true },
		{ "\\boxed{10\\%}", "\\boxed{10}", true },
		{ "\\boxed{145^\\circ}", "\\boxed{145}", true },
		{ "\\boxed{145^{\\circ}}", "\\boxed{145}", true },
		{ "\\boxed{x=3}", "\\boxed{3}", true },
		{ "\\boxed{x = 3}", "\\boxed{x=4}", false },
		{ "\\boxed{y=2x+3}", "\\boxed{2x + 3}", true },
		{ "\\boxed{\\left(3, \\frac{\\pi}{2}\\right)}",
			"\\boxed{(3,\\frac{\\pi}{2})}", true },
		{ "\\boxed{(3,4)}", "\\boxed{(4,3)}", false },
		{ "\\boxed{ 6 - 5i }", "\\boxed{6-5i}", true },
		{ "\\boxed{p - q}", "\\boxed{p-q}", true },
		{ "\\boxed{[-2, 7]}", "\\boxed{[-2,7]}", true },
		{ "\\boxed{(-2, 7]}", "\\boxed{[-2,7]}", false },
		{ "\\boxed{.5}", "\\boxed{0.5}", true },
		{ "\\boxed{3.}", "\\boxed{3}", true },
		{ "\\boxed{\\boxed{5}}", "\\boxed{5}", true },
		{ "\\boxed{5", "\\boxed{5}", false },
		{ "", "\\boxed{5}", false },
	};

	check_marks(EVAL_BOXED, marks, ARRAY_LEN(marks));
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
		assert_int_equal(is_right(&item, marks[i].output,
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
		assert_false(is_right(&item, NULL, 0));
		assert_false(is_right(&item, "a\0", 2));
	}
	item.check = EVAL_NUMBER;
	item.answer = "7";
	assert_true(is_right(&item, "\0\xff 7\0", 5));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_exact),
	cmocka_unit_test(test_number),
	cmocka_unit_test(test_boxed),
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_facts),
	cmocka_unit_test(test_any_bytes),
};

TEST_FILE(tests)
