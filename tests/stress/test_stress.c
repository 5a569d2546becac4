/* Tests the engine of tandem-stress (tests/stress/stress.h) with an area whose
 * schedules fail in a chosen way. */
#include "tests/harness.h"

#include "tests/stress/stress.h"

#include "base/checked.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { CALM, WRONG, CRASH, HANG, LEAVE, UNABLE };

static const struct stress_verb table[] = {
	[CALM] = { "calm", { { NULL } } },
	[WRONG] = { "wrong", { { "n", 0, 100 } } },
	[CRASH] = { "crash", { { NULL } } },
	[HANG] = { "hang", { { NULL } } },
	[LEAVE] = { "leave", { { NULL } } },
	[UNABLE] = { "unable", { { NULL } } },
};
static const char *const tally[] = { "calm", NULL };
/* verb of step 11 of run 37; all other steps are CALM */
static uint32_t bad = CALM;

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	for (uint32_t i = 0; i < 20; i++)
		if (d->run == 37 && i == 11)
			STRESS_ADD(s, bad, 77);
		else
			STRESS_ADD(s, CALM, 0);
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		switch (s->step[i].verb) {
		case CALM:
			r->tally[0]++;
			break;
		case WRONG:
			if (s->step[i].value[0] < 20)
				break;
			return stress_broken(
				r, "%u is wrong", s->step[i].value[0]);
		case CRASH:
			/* Crash by SIGKILL, which causes no core file and no
			 * report of a sanitizer. */
			raise(SIGKILL);
			break;
		case HANG:
			for (;;)
				pause();
		case LEAVE:
			_exit(7);
		default:
			return err_set(r->e, ENOSPC, "no space");
		}
	return 0;
}

static const struct stress_area toy = {
	.verbs = { "toy", table, ARRAY_LEN(table) },
	.tally = tally,
	.seconds = 1,
	.draw = draw,
	.run = run,
};

static struct stress_result r;

static void finds(uint32_t verb, const char *says)
{
	struct stress_opts o = { .seed = 1, .runs = 100 };
	struct err e = { 0 };

	bad = verb;
	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_true(r.broken);
	assert_int_equal(r.run, 37);
	assert_int_equal(r.runs, 38);
	assert_int_equal(r.steps, 20);
	assert_true(r.again);
	assert_int_equal(r.schedule.n, 1);
	assert_int_equal(r.schedule.step[0].verb, verb);
	if (!strstr(r.what.text, says))
		fail_msg("'%s' does not say '%s'", r.what.text, says);
}

static void test_holds(void **state)
{
	struct stress_opts o = { .seed = 1, .runs = 100 };
	struct err e = { 0 };

	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_false(r.broken);
	assert_int_equal(r.runs, 100);
	assert_int_equal(r.tally[0], 2000);
	o = (struct stress_opts){ .seed = 1, .seconds = 0.05 };
	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_true(r.runs > 0 && r.seconds >= 0.05);
}

static void test_wrong(void **state)
{
	finds(WRONG, "20 is wrong");
	assert_int_equal(r.schedule.step[0].value[0], 20);
	assert_int_equal(r.tally[0], 37 * 20 + 11);
	assert_true(r.smallest);
}

static void test_crash(void **state)
{
	finds(CRASH, "killed by signal 9");
	finds(LEAVE, "ended with status 7");
}

static void test_hang(void **state)
{
	static struct stress_schedule s;
	struct stress_opts o = { .replay = &s };
	struct err e = { 0 };

	s.n = 0;
	STRESS_ADD(&s, HANG, 0);
	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_true(r.broken && r.again);
	assert_string_equal(r.what.text, "the process did not end within 1 s");
}

static void test_unable(void **state)
{
	struct stress_opts o = { .seed = 1, .runs = 100 };
	struct err e = { 0 };

	bad = UNABLE;
	assert_int_equal(stress(&toy, &o, &r, &e), -ENOSPC);
	assert_string_equal(e.text, "no space");
	assert_true(r.stopped);
	assert_int_equal(r.runs, 37);
	assert_false(r.broken);
}

static void test_replay(void **state)
{
	static struct stress_schedule s;
	struct stress_opts o = { .replay = &s };
	struct err e = { 0 };

	s.n = 0;
	STRESS_ADD(&s, CALM, 0);
	STRESS_ADD(&s, WRONG, 50);
	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_true(r.broken && r.again);
	assert_int_equal(r.schedule.n, 1);
	s.n = 1;
	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_false(r.broken);
	assert_int_equal(r.runs, 1);
}

static void test_cancel(void **state)
{
	volatile sig_atomic_t cancel = 1;
	struct stress_opts o = { .seed = 1, .cancel = &cancel };
	static struct stress_schedule s;
	struct err e = { 0 };

	s.n = 0;
	STRESS_ADD(&s, HANG, 0);
	o.replay = &s;
	assert_ok(stress(&toy, &o, &r, &e), &e);
	assert_true(r.stopped);
	assert_false(r.broken);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_holds),
	cmocka_unit_test(test_wrong),
	cmocka_unit_test(test_crash),
	cmocka_unit_test(test_hang),
	cmocka_unit_test(test_unable),
	cmocka_unit_test(test_replay),
	cmocka_unit_test(test_cancel),
};

TEST_FILE(tests)
