/*
 * Canonical answers in generated texts. Hard cases are checked by hand. The
 * test also puts numbers, boxes and words into random texts, so that it knows
 * the expected answers.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "host/text/answer.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Compare the answer in `text` with `want`, which is "" if there must be no
 * answer. */
static void check(const char *form, const char *text, const char *want)
{
	struct strbuf got = STRBUF_INIT;
	struct answer_form *f;
	struct err e;
	bool found;

	assert_ok(answer_form_open(&f, form, &e), &e);
	found = answer_of(f, text, strlen(text), &got);
	if (found != (*want != '\0') || strcmp(found ? got.data : "", want))
		fail_msg("the answer of '%s' (%s) is '%s', not '%s'", text,
			form, found ? got.data : "", want);
	strbuf_release(&got);
	answer_form_close(f);
}

static void test_numbers(void **state)
{
	static const char *const is[][2] = {
		{ "The answer is 17.", "17" },
		{ "1,234.50 euros", "1234.5" },
		{ "12,345,678", "12345678" },
		{ "1,2345", "2345" },
		{ "one of 10,20,30", "30" },
		{ "1,23", "23" },
		{ "-0", "0" },
		{ "-0.00", "0" },
		{ "-0.50", "-0.5" },
		{ "007", "7" },
		{ "0", "0" },
		{ "000.1000", "0.1" },
		{ "it is .5", "0.5" },
		{ "12.", "12" },
		{ "12.0", "12" },
		{ "3/4 of it", "3/4" },
		{ "-3/04", "-3/4" },
		{ "40 - 23", "23" },
		{ "40-23", "23" },
		{ "(40)-23", "23" },
		{ "= -23.", "-23" },
		{ "x-5", "5" },
		{ "x5", "5" },
		{ "$1,000", "1000" },
		{ "25 / 5 = 5.\nThe answer is 5.\n", "5" },
		{ "99999999999999999999999999", "99999999999999999999999999" },
		{ "none", "" },
		{ "", "" },
		{ "-", "" },
		{ "\xff\xfe 3 \xff", "3" },
	};

	for (size_t i = 0; i < ARRAY_LEN(is); i++)
		check("last-number", is[i][0], is[i][1]);
}

static void test_boxed(void **state)
{
	static const char *const is[][2] = {
		{ "so \\boxed{ 1,000.0 }.", "1000" },
		{ "\\boxed{1} or \\boxed{\\frac{1}{2}}", "1/2" },
		{ "\\boxed{\\boxed{7}}", "7" },
		{ "\\boxed{a  b\n c}", "a b c" },
		{ "\\boxed{\\{1\\}}", "\\{1\\}" },
		{ "\\boxed{3 apples}", "3 apples" },
		{ "\\boxed{4} and \\boxed{5", "4" },
		{ "\\boxed{}", "" },
		{ "boxed{5}", "" },
		{ "5", "" },
		{ "\\boxed{\\dfrac12}", "1/2" },
		{ "\\boxed{-\\tfrac{3}{4}}", "-3/4" },
		{ "\\boxed{3\\frac12}", "3\\frac{1}{2}" },
		{ "\\boxed{\\frac{x}{2}}", "\\frac{x}{2}" },
		{ "\\boxed{\\frac\\pi 2}", "\\frac\\pi 2" },
		{ "\\boxed{2\\sqrt3}", "2\\sqrt{3}" },
		{ "\\boxed{12\\text{ cm}^2}", "12" },
		{ "\\boxed{12 \\mbox{ inches}}", "12" },
		{ "\\boxed{\\text{Evelyn}}", "Evelyn" },
		{ "\\boxed{\\text{(B)}}", "(B)" },
		{ "\\boxed{x = 5}", "5" },
		{ "\\boxed{x+y=5}", "x+y=5" },
		{ "\\boxed{\\left( 1, 2 \\right)}", "(1,2)" },
		{ "\\boxed{10,\\!000}", "10000" },
		{ "\\boxed{1{,}000}", "1000" },
		{ "\\boxed{\\$18.90}", "18.9" },
		{ "\\boxed{50\\%}", "50" },
		{ "\\boxed{90^\\circ}", "90" },
		{ "\\boxed{30^{\\circ}}", "30" },
		{ "\\boxed{.5}", "0.5" },
		{ "\\boxed{7.}", "7" },
		{ "\\boxed{2x + 3}", "2x+3" },
		{ "\\boxed{x \\in [1, 2)}", "x\\in[1,2)" },
		{ "\\boxed{\\leftarrow}", "\\leftarrow" },
		{ "\\boxed{\\pi}", "\\pi" },
	};

	for (size_t i = 0; i < ARRAY_LEN(is); i++)
		check("boxed", is[i][0], is[i][1]);
}

static void test_equal(void **state)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} is[] = {
		{ "17", "17", true },
		{ "3/4", "0.75", true },
		{ "0.75", "3/4", true },
		{ "6/8", "3/4", true },
		{ "-1/2", "-0.5", true },
		{ "14/2", "7", true },
		{ "1/3", "0.33", false },
		{ "1/2", "-0.5", false },
		{ "1/0", "1", false },
		{ "1/0", "2/0", false },
		{ "1/2", "one half", false },
		{ "1/2/3", "1/6", false },
		{ "/2", "0", false },
		{ "99999999999999999999", "99999999999999999998", false },
		{ "x", "y", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(is); i++)
		if (answers_equal(is[i].a, is[i].b) != is[i].equal)
			fail_msg("'%s' and '%s'", is[i].a, is[i].b);
}

static void test_text(void **state)
{
	check("text", "  two \t words\n", "two words");
	check("text", "\n \t", "");
	check("text", "", "");
	check("text", "one", "one");
}

static void test_regex(void **state)
{
	check("regex:answer is (\\w+)",
		"The answer is yes. No, the answer is no", "no");
	check("regex:[a-c]+", "ab, then cba!", "cba");
	check("regex:(x)?y", "xy y", "y");
	check("regex:z*", "aazz", "");
	check("regex:(?i)straße", "Die STRASSE, die Straße", "Straße");
	check("regex:é|$", "café", "");
	/* The expression needs too many steps, so the match ends early and
	 * there is no answer. */
	check("regex:(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "");
}

static void test_refused(void **state)
{
	struct answer_form *f;
	struct err e;

	assert_int_equal(answer_form_open(&f, "first", &e), -EINVAL);
	assert_non_null(strstr(e.text, ANSWER_FORMS));
	assert_int_equal(answer_form_open(&f, "regex:a(b", &e), -EINVAL);
	assert_non_null(strstr(e.text, "at character 4"));
	assert_null(f);
	answer_form_close(NULL);
}

struct draws {
	uint64_t seed, at;
};

static uint64_t draw(struct draws *d)
{
	uint32_t w[4];

	rng_words(d->seed, 0, d->at++, w);
	return (uint64_t)w[0] << 32 | w[1];
}

static void group_thousands(const char *digits, char *out)
{
	size_t len = strlen(digits);

	for (size_t k = 0; k < len; k++) {
		if (k && (len - k) % 3 == 0)
			*out++ = ',';
		*out++ = digits[k];
	}
	*out = '\0';
}

/* Numbers are written with or without a minus sign, commas between thousands,
 * and zeros at the end of the fraction. */
static void test_random_numbers(void **state)
{
	struct draws d = { harness_seed(), 0 };

	for (unsigned i = 0; i < 3000; i++) {
		uint64_t n = draw(&d) >> (4 + draw(&d) % 60);
		unsigned tenth = (unsigned)(draw(&d) % 10);
		const char *minus = draw(&d) % 2 ? "-" : "";
		char digits[40], grouped[60], text[200], want[60];

		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
		group_thousands(digits, grouped);
		snprintf(text, sizeof(text), "%u + %s\nfor %s%s.%u%s%s",
			(unsigned)(draw(&d) % 100),
			draw(&d) % 2 ? "3.5 cups, or" : "x", minus,
			draw(&d) % 2 ? digits : grouped, tenth,
			draw(&d) % 2 ? "00" : "",
			draw(&d) % 2 ? " cups." : ".");
		if (tenth)
			snprintf(want, sizeof(want), "%s%s.%u", minus, digits,
				tenth);
		else
			snprintf(want, sizeof(want), "%s%s", n ? minus : "",
				digits);
		check("last-number", text, want);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_numbers),
	cmocka_unit_test(test_boxed),
	cmocka_unit_test(test_equal),
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_regex),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_random_numbers),
};
TEST_FILE(tests)
