/*
 * Tests of the test runner itself. The runner must report that the first four
 * tests fail, the next is skipped, the next passes, and the last passes but
 * leaves a process running. Otherwise tests/run refuses to run any test.
 */
#include "tests/harness.h"

#include <signal.h>
#include <unistd.h>

static void fails(void **state)
{
	assert_int_equal(1, 2);
}

static void hangs(void **state)
{
	for (;;)
		pause();
}

/* A test that exits with status 0 before cmocka has reported its result counts
 * as failed. */
static void leaves(void **state)
{
	_exit(0);
}

static void crashes(void **state)
{
	raise(SIGKILL);
}

static void skips(void **state)
{
	skip();
}

static void passes(void **state)
{
	assert_int_equal(1, 1);
}

static void stays(void **state)
{
	if (!fork())
		for (;;)
			pause();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(fails),
	cmocka_unit_test(hangs),
	cmocka_unit_test(leaves),
	cmocka_unit_test(crashes),
	cmocka_unit_test(skips),
	cmocka_unit_test(passes),
	cmocka_unit_test(stays),
};

TEST_FILE(tests)
