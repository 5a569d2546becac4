/* Lists of option sets as a user writes them, and the settings made from
 * them. */
#include "base/err.h"
#include "host/bench/sets.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void test_sets(void **state)
{
	struct sets s = { 0 };
	struct err e = { 0 };

	assert_ok(sets_parse(&s,
			  " tree-rows=16  draft=a=b ; small: tree-rows=4 "
			  "prune-always;draft=oracle:0.8\n; ",
			  &e),
		&e);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.set[0].name, "tree-rows=16 draft=a=b");
	assert_int_equal(s.set[0].changes.n, 2);
	assert_string_equal(
		setting_value(&s.set[0].changes, "tree-rows"), "16");
	assert_string_equal(setting_value(&s.set[0].changes, "draft"), "a=b");
	assert_null(setting_value(&s.set[0].changes, "tree"));
	assert_string_equal(s.set[1].name, "small");
	assert_string_equal(
		setting_value(&s.set[1].changes, "prune-always"), "true");
	assert_string_equal(s.set[2].name, "draft=oracle:0.8");
	sets_release(&s);
	assert_int_equal(s.n, 0);
}

/* The text is copied to memory of its exact length, so that sanitizers detect
 * reads beyond its end. */
static void check_refused(const char *text, const char *says)
{
	struct sets s = { 0 };
	struct err e = { 0 };

	assert_int_equal(sets_parse(&s, text, &e), -EINVAL);
	if (!strstr(e.text, says))
		fail_msg("'%s' is refused by '%s', not with '%s'", text, e.text,
			says);
	sets_release(&s);
}

static void test_refused(void **state)
{
	char many[40 * SETS_MAX] = "", letters[TABLE_NAME + 8];
	char named[TABLE_NAME + 32];
	struct sets s = { 0 };
	struct err e = { 0 };

	check_refused("", "is empty");
	check_refused(" \t ", "is empty");
	check_refused("a=1;;b=2", "is empty");
	check_refused(";a=1", "is empty");
	check_refused("a=1;name:", "is empty");
	check_refused("=3", "not NAME=VALUE");
	check_refused("a=1 b=2 a=3", "'a' twice");
	check_refused("a=1;x: b=2;a=1", "two sets have the name 'a=1'");
	check_refused("x: a=1;x: a=2", "two sets have the name 'x'");

	memset(letters, 'v', sizeof(letters));
	letters[sizeof(letters) - 1] = '\0';
	letters[1] = '=';
	check_refused(letters, "put a name before it");
	snprintf(named, sizeof(named), "long: %s", letters);
	assert_ok(sets_parse(&s, named, &e), &e);
	assert_string_equal(s.set[0].name, "long");
	sets_release(&s);

	for (int i = 0; i <= SETS_MAX; i++)
		snprintf(many + strlen(many), 12, "a=%d;", i);
	check_refused(many, "more than");
}

static void test_settings(void **state)
{
	struct setting a = { 0 }, b = { 0 }, c;
	struct err e = { 0 };
	char text[64], little[10];

	assert_ok(setting_change(&a, "x=1", &e), &e);
	assert_ok(setting_change(&a, "xy=2", &e), &e);
	assert_ok(setting_set(&b, "xy", "2", &e), &e);
	assert_false(setting_same(&a, &b));
	assert_ok(setting_set(&b, "x", "3", &e), &e);
	assert_false(setting_same(&a, &b));
	assert_ok(setting_set(&b, "x", "1", &e), &e);
	/* Two settings are equal if they have the same changes in any order and
	 * the same hook. */
	assert_true(setting_same(&a, &b));
	b.hook = &(const struct setting_hook){ 0 };
	assert_false(setting_same(&a, &b));
	assert_ok(setting_copy(&c, &b, &e), &e);
	assert_true(setting_same(&c, &b));
	assert_string_equal(setting_text(&a, text, sizeof(text)), "x=1 xy=2");
	assert_string_equal(setting_text(&a, little, 7), "x=1 xy");
	assert_int_equal(setting_change(&a, "novalue", &e), -EINVAL);
	assert_int_equal(a.n, 2);
	for (int i = 0; a.n < SETTING_CHANGES; i++) {
		snprintf(text, sizeof(text), "n%d=", i);
		assert_ok(setting_change(&a, text, &e), &e);
	}
	assert_int_equal(setting_change(&a, "more=1", &e), -EINVAL);
	assert_ok(setting_change(&a, "x=9", &e), &e);
	assert_string_equal(setting_value(&a, "x"), "9");
	setting_release(&a);
	setting_release(&b);
	setting_release(&c);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_sets),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_settings),
};

TEST_FILE(tests)
