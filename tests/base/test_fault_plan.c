#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fault_plan.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t draws;

static unsigned below(unsigned n)
{
	return (unsigned)(rng_uniform(harness_seed(), 1, draws++) * n);
}

/* ---- random plans --------------------------------------------------- */

/*
 * Print a random event of a fault plan (a fault and the time at which it
 * happens). This function does not call fault_event_print, so the tests also
 * check that the parser accepts the whole grammar of events.
 */
static void random_event(char *out, size_t size)
{
	static const char *const at_request[] = { "die", "die-inside",
		"die-answered", "hang", "hang-inside", "hang-answered",
		"bell-drop", "bell-repeat", "bell-merge", "tear", "seq" };
	static const char *const at_read[] = { "eio", "short", "flip", "stall",
		"shrink" };
	static const char *const kind[] = { "", "nop#", "map#", "unmap#",
		"load#", "drop#", "run#", "soc#" };
	static const char *const maintenance[] = { "invalidate", "clean",
		"word" };
	const char *later = below(3) ? "" : "+";
	unsigned n = 1 + below(1000), ms = 1 + below(FAULT_MS_MAX);
	const char *k = kind[below(ARRAY_LEN(kind))];

	switch (below(8)) {
	case 0:
		snprintf(out, size, "drop-%s", maintenance[below(3)]);
		break;
	case 1:
		snprintf(out, size, "drop-%s:tandem:io#%u",
			maintenance[below(3)], n);
		break;
	case 2:
		snprintf(out, size, "%s@%u%s", at_read[below(5)], n, later);
		break;
	case 3:
		snprintf(out, size, "slow=%u@%u%s", ms, n, later);
		break;
	case 4:
		snprintf(out, size, "%s=%u@%s%u%s", below(2) ? "late" : "full",
			ms, k, n, later);
		break;
	case 5:
		snprintf(out, size, "enomem@map#%u%s", n, later);
		break;
	case 6:
		snprintf(out, size, "%s@start#%u%s", below(2) ? "die" : "hang",
			n, later);
		break;
	default:
		snprintf(out, size, "%s@%s%u%s",
			at_request[below(ARRAY_LEN(at_request))], k, n, later);
	}
}

static void random_plan(char text[FAULT_TEXT_MAX])
{
	unsigned n = 1 + below(FAULT_PLAN_MAX);

	text[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		size_t at = strlen(text);
		char one[64];

		random_event(one, sizeof(one));
		snprintf(text + at, FAULT_TEXT_MAX - at, "%s%s", i ? "," : "",
			one);
	}
}

static void round_trip(void **state)
{
	for (unsigned i = 0; i < 2000; i++) {
		char text[FAULT_TEXT_MAX], again[FAULT_TEXT_MAX];
		struct fault_plan p, q;
		struct err e = { 0 };

		random_plan(text);
		assert_ok(fault_plan_parse(&p, text, &e), &e);
		fault_plan_print(&p, again);
		assert_string_equal(again, text);
		assert_ok(fault_plan_parse(&q, again, &e), &e);
		assert_memory_equal(&p, &q, sizeof(p));
	}
}

/* Any string is either refused or accepted, and an accepted plan can be printed
 * and parsed again. */
static void any_text(void **state)
{
	static const char letters[] = "die-hang@=#+:,0123start run\n";

	for (unsigned i = 0; i < 20000; i++) {
		char text[FAULT_TEXT_MAX], again[FAULT_TEXT_MAX];
		struct fault_plan p;
		struct err e = { 0 };

		random_plan(text);
		for (unsigned k = 1 + below(3); k; k--)
			text[below((unsigned)strlen(text))] =
				letters[below(sizeof(letters) - 1)];
		/* A string that begins with @ would be a file name. */
		if (*text == '@' || fault_plan_parse(&p, text, &e))
			continue;
		fault_plan_print(&p, again);
		assert_ok(fault_plan_parse(&p, again, &e), &e);
	}
}

static void bad_plans(void **state)
{
	static const char *const bad[] = { "die", "die@", "die@0", "die@run",
		"die@run#", "die@run#0", "die@walk#1", "die@1x", "die@1++",
		"die@1,", ",die@1", "die@ 1", "die=5@1", "late@1", "late=0@1",
		"late=60001@1", "enomem@1", "enomem@run#1", "seq@start#1",
		"eio@run#1", "eio@start#1", "slow@1",
		"drop-clean:", "drop-clean:#1", "drop-clean:a#0",
		"drop-clean@1",
		"drop-clean:a-name-that-is-longer-than-any-buffer", "die-after",
		"die-after:0", "die-after:1+", "hang-after:x", "explode@1",
		"die@99999999999999999999" };
	struct fault_plan p;
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (fault_plan_parse(&p, bad[i], &e) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
		if (!strstr(e.text, "tandem help faults"))
			fail_msg("'%s': %s", bad[i], e.text);
	}
	assert_int_equal(fault_plan_parse(&p, "@/no/such/file", &e), -ENOENT);
	assert_int_equal(
		fault_plan_parse_device(&p, "seq@1,eio@2", &e), -EINVAL);
	assert_non_null(strstr(e.text, "eio@2"));
}

static void old_forms(void **state)
{
	struct fault_plan p;
	struct err e = { 0 };
	char text[FAULT_TEXT_MAX];

	assert_ok(fault_plan_parse(&p, "die-after:3,hang-after:40", &e), &e);
	fault_plan_print(&p, text);
	assert_string_equal(text, "die@3,hang@40");
	assert_ok(fault_plan_parse(&p, NULL, &e), &e);
	assert_int_equal(p.n, 0);
}

static void from_a_file(void **state)
{
	static const char lines[] = "# a remark, with a comma\n"
				    "die@run#3, late=5@2 \n\n  eio@7+\n";
	char path[] = "/tmp/fault_plan.XXXXXX", at[64], text[FAULT_TEXT_MAX];
	int fd = mkstemp(path);
	struct fault_plan p, flash;
	struct err e = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(
		write(fd, lines, sizeof(lines) - 1), sizeof(lines) - 1);
	close(fd);
	snprintf(at, sizeof(at), "@%s", path);
	assert_ok(fault_plan_parse(&p, at, &e), &e);
	unlink(path);
	fault_plan_print(&p, text);
	assert_string_equal(text, "die@run#3,late=5@2,eio@7+");
	fault_plan_share(&p, true, &flash);
	fault_plan_print(&flash, text);
	assert_string_equal(text, "eio@7+");
}

/* A plan of the longest events is printed completely. */
static void longest_events(void **state)
{
	static const char event[] = "drop-invalidate:"
				    "a-name-of-thirty-one-characters"
				    "#18446744073709551615";
	char plan[FAULT_PLAN_MAX * sizeof(event)] = "", text[FAULT_TEXT_MAX];
	struct fault_plan p;
	struct err e = { 0 };

	for (unsigned i = 0; i < FAULT_PLAN_MAX; i++) {
		size_t at = strlen(plan);

		snprintf(plan + at, sizeof(plan) - at, "%s%s", i ? "," : "",
			event);
	}
	assert_ok(fault_plan_parse(&p, plan, &e), &e);
	fault_plan_print(&p, text);
	assert_string_equal(text, plan);
}

/* A file that is not a plan is named. */
static void from_a_bad_file(void **state)
{
	char path[4200], at[4300];
	struct fault_plan p;
	struct err e = { 0 };
	FILE *f;

	snprintf(path, sizeof(path), "%s/plan", harness_tmp());
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("die@run#3\nexplode@1\n", f);
	assert_int_equal(fclose(f), 0);
	snprintf(at, sizeof(at), "@%s", path);
	assert_int_equal(fault_plan_parse(&p, at, &e), -EINVAL);
	if (!strstr(e.text, path) ||
		!strstr(e.text, "'explode@1' is not a fault"))
		fail_msg("'%s'", e.text);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(round_trip),
	cmocka_unit_test(any_text),
	cmocka_unit_test(bad_plans),
	cmocka_unit_test(old_forms),
	cmocka_unit_test(from_a_file),
	cmocka_unit_test(longest_events),
	cmocka_unit_test(from_a_bad_file),
};

TEST_FILE(tests)
