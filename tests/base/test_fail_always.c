/*
 * Tests of the runner rather than of the project: it must see the first four
 * fail, the next skipped, the next pass, and the last pass but leave a process.
 * tests/run refuses to run any test otherwise.
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

/* Status 0 before the checks were reached is no success. */
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
