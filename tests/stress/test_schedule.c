#include "tests/harness.h"

#include "tests/stress/areas.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

static const char *const colours[] = { "red", "green", "blue" };

static const struct stress_verb table[] = {
	{ "paint", { { "colour", 0, 2, colours }, { "coats", 1, 9 } } },
	{ "wait", { { NULL } } },
};
static const struct stress_verbs verbs = { "wall", table, ARRAY_LEN(table) };

static void test_text(void **state)
{
	static const char text[] = "tandem-stress 1 wall\n"
				   "# a remark\n"
				   "\n"
				   "paint coats=3 colour=blue # another\n"
				   "  wait\n"
				   "paint";
	struct strbuf out = STRBUF_INIT;
	struct stress_schedule s;
	struct err e;

	assert_ok(stress_parse(&s, &verbs, text, &e), &e);
	assert_int_equal(s.n, 3);
	stress_print(&verbs, &s, &out);
	assert_string_equal(out.data,
		"tandem-stress 1 wall\n"
		"paint colour=blue coats=3\n"
		"wait\n"
		"paint colour=red coats=1\n");
	strbuf_release(&out);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "it must begin with 'tandem-stress 1 AREA'" },
		{ "tandem-stress 2 wall\n",
			"the file is not a schedule: it must begin with" },
		{ "tandem-stress 1 floor\n", "area 'floor', not for 'wall'" },
		{ "tandem-stress 1 wall\nwait\ndrink", "line 3: 'drink'" },
		{ "tandem-stress 1 wall\npaint colour=pink",
			"line 2: no colour is 'pink'" },
		{ "tandem-stress 1 wall\npaint coats=0", "from 1 to 9" },
		{ "tandem-stress 1 wall\npaint coats=10", "from 1 to 9" },
		{ "tandem-stress 1 wall\npaint coats=-1", "from 1 to 9" },
		{ "tandem-stress 1 wall\npaint coats=4294967298",
			"from 1 to 9" },
		{ "tandem-stress 1 wall\nwait coats=1",
			"'wait' has no parameter 'coats=1'" },
		{ "tandem-stress 1 wall\nwait now", "no parameter 'now'" },
	};
	struct stress_schedule s;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		if (!stress_parse(&s, &verbs, bad[i].text, &e))
			fail_msg("'%s' was taken", bad[i].text);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s': says '%s', not '%s'", bad[i].text,
				e.text, bad[i].says);
	}
}

static void test_too_long(void **state)
{
	struct strbuf text = STRBUF_INIT;
	struct stress_schedule s;
	struct err e;

	strbuf_addf(&text, "tandem-stress 1 wall\n");
	for (unsigned i = 0; i < STRESS_STEPS; i++)
		strbuf_addf(&text, "wait\n");
	assert_ok(stress_parse(&s, &verbs, text.data, &e), &e);
	strbuf_addf(&text, "wait\n");
	assert_true(stress_parse(&s, &verbs, text.data, &e) < 0);
	assert_non_null(strstr(e.text, "more than 400 steps"));
	strbuf_release(&text);
}

/* The schedules of every area are reproducible, within their ranges, and equal
 * after printing and parsing. */
static void test_areas(void **state)
{
	uint64_t seed = harness_seed();

	for (size_t a = 0; stress_areas[a]; a++) {
		const struct stress_verbs *v = &stress_areas[a]->verbs;

		for (uint64_t run = 0; run < 200; run++) {
			struct stress_draw d[2] = { { seed, run, 0 },
				{ seed, run, 0 } };
			static struct stress_schedule s, again, read;
			struct strbuf text = STRBUF_INIT;
			struct err e = { 0 };

			s.n = again.n = 0;
			stress_areas[a]->draw(&d[0], &s);
			stress_areas[a]->draw(&d[1], &again);
			assert_true(s.n > 0);
			assert_int_equal(s.n, again.n);
			assert_memory_equal(
				s.step, again.step, s.n * sizeof(s.step[0]));
			stress_print(v, &s, &text);
			if (stress_parse(&read, v, text.data, &e))
				fail_msg("%s, run %d: %s", v->area, (int)run,
					e.text);
			assert_int_equal(read.n, s.n);
			assert_memory_equal(
				s.step, read.step, s.n * sizeof(s.step[0]));
			strbuf_release(&text);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_too_long),
	cmocka_unit_test(test_areas),
};

TEST_FILE(tests)
