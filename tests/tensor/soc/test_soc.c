/* Tests the table that describes the numbers of a phone profile, and the limits
 * of these numbers. */
#include "base/err.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static struct soc at_lower_limits(void)
{
	struct soc soc;

	for (size_t i = 0; i < SOC_COUNT; i++)
		soc_set(&soc, i, soc_numbers[i].lower);
	return soc;
}

/* The table has the fields of the struct in order, so that a profile's array
 * can be copied to the struct. */
static void test_order(void **state)
{
	struct soc soc = { 0 };

	assert_true(SOC_COUNT * sizeof(double) == sizeof(soc));
	for (size_t i = 0; i < SOC_COUNT; i++) {
		assert_int_equal(soc_numbers[i].offset, i * sizeof(double));
		soc_set(&soc, i, (double)i + 0.5);
	}
	for (size_t i = 0; i < SOC_COUNT; i++)
		assert_true(soc_get(&soc, i) == (double)i + 0.5);
	assert_true(soc.clock_hz == 0.5);
	assert_true(soc.flash_w == (double)SOC_COUNT - 0.5);
}

static void test_names(void **state)
{
	for (size_t i = 0; i < SOC_COUNT; i++) {
		assert_true(soc_numbers[i].lower < soc_numbers[i].upper);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(
				soc_numbers[i].name, soc_numbers[j].name);
	}
}

static void refused(const struct soc *soc, const char *name)
{
	struct err e = { 0 };

	assert_int_equal(soc_check(soc, &e), -ERANGE);
	if (strncmp(e.text, name, strlen(name)))
		fail_msg("'%s' does not name %s", e.text, name);
}

static void test_limits(void **state)
{
	struct soc soc = at_lower_limits();
	struct err e = { 0 };

	assert_ok(soc_check(&soc, &e), &e);
	for (size_t i = 0; i < SOC_COUNT; i++) {
		const struct soc_number *n = &soc_numbers[i];
		const double bad[] = { nextafter(n->lower, -INFINITY),
			nextafter(n->upper, INFINITY), NAN, INFINITY,
			-INFINITY };

		for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++) {
			soc_set(&soc, i, bad[j]);
			refused(&soc, n->name);
		}
		soc_set(&soc, i, n->upper);
		assert_ok(soc_check(&soc, &e), &e);
		soc_set(&soc, i, n->lower);
	}
}

static void test_whole(void **state)
{
	struct soc soc = at_lower_limits();

	soc.vector_units = 4.5;
	refused(&soc, "vector_units");
	soc.vector_units = 4;
	soc.flash_queue = 1.5;
	refused(&soc, "flash_queue");
	soc.flash_queue = 1;
	soc.vector_qfloat = 0.5;
	refused(&soc, "vector_qfloat");
	soc.vector_qfloat = 1;
	soc.vector_permute_shifts = 0.25;
	refused(&soc, "vector_permute_shifts");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_order),
	cmocka_unit_test(test_names),
	cmocka_unit_test(test_limits),
	cmocka_unit_test(test_whole),
};

TEST_FILE(tests)
