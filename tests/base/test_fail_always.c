/*
 * Not a test of the project but of its runner, which must see the first four
 * of these fail, the next skipped and only the last pass; tests/run refuses
 * to go on otherwise.
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(fails),
	cmocka_unit_test(hangs),
	cmocka_unit_test(leaves),
	cmocka_unit_test(crashes),
	cmocka_unit_test(skips),
	cmocka_unit_test(passes),
};

TEST_MAIN(tests)
