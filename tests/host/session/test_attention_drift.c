#include "host/session/attention_drift.h"

#include "tests/harness.h"

#include <math.h>

#define LAYERS 4
#define LENGTH 5

static struct attention_map map(const float *w, uint32_t length)
{
	return (struct attention_map){ w, LAYERS, length };
}

/* The attention maps differ by an angle of l * 10 degrees in layer l. */
static void test_first_layer(void **state)
{
	float a[LAYERS][2] = { 0 }, b[LAYERS][2] = { 0 };
	struct attention_map before = map(a[0], 2), now = map(b[0], 2);

	for (int l = 0; l < LAYERS; l++) {
		double angle = l * M_PI / 18;

		a[l][0] = 3;
		a[l][1] = 0;
		b[l][0] = (float)cos(angle);
		b[l][1] = (float)sin(angle);
	}
	assert_int_equal(attention_drift(&before, &now, 1.1), 0);
	assert_int_equal(attention_drift(&before, &now, cos(.1)), 1);
	assert_int_equal(attention_drift(&before, &now, cos(M_PI / 12)), 2);
	assert_int_equal(attention_drift(&before, &now, cos(.5)), 3);
	assert_int_equal(attention_drift(&before, &now, cos(.6)), LAYERS);
}

/* attention_drift returns the first layer in which the maps differ by the given
 * angle or more; a smaller difference in a later layer does not matter. */
static void test_first_of_several(void **state)
{
	const float a[LAYERS] = { 1, 1, 1, 1 }, b[LAYERS] = { 1, -1, 1, -1 };
	struct attention_map before = map(a, 1), now = map(b, 1);

	assert_int_equal(attention_drift(&before, &now, 0.5), 1);
	assert_int_equal(attention_drift(&before, &before, 0.9), LAYERS);
}

/* If one map has fewer positions than the other, each missing position counts
 * as weight 0. */
static void test_lengths(void **state)
{
	const float a[LAYERS * 2] = { 3, 4, 3, 4, 3, 4, 3, 4 };
	const float b[LAYERS * 3] = { 3, 4, 0, 3, 4, 1, 3, 4, 5, 3, 4, 12 };
	struct attention_map before = map(a, 2), now = map(b, 3);
	const double cosine[LAYERS] = { 1, 5 / sqrt(26), 5 / sqrt(50),
		5 / 13. };

	for (uint32_t l = 0; l < LAYERS; l++) {
		double least = cosine[l] + 1e-6;

		assert_int_equal(attention_drift(&before, &now, least), l);
		assert_int_equal(attention_drift(&now, &before, least), l);
		least -= 2e-6;
		assert_int_equal(attention_drift(&before, &now, least), l + 1);
	}
}

static void test_nothing(void **state)
{
	const float a[LAYERS] = { 0 }, b[LAYERS] = { 1, 1, 1, 1 };
	struct attention_map before = map(a, 1), now = map(b, 1);

	assert_int_equal(attention_drift(&before, &now, 0.1), 0);
	assert_int_equal(attention_drift(&before, &before, 0.1), 0);
}

static void test_most(void **state)
{
	const float w[LAYERS * LENGTH] = { 0, .1f, .4f, .4f, .1f, .9f, 0, 0, 0,
		.1f, 0, 0, 0, 0, 1, .2f, .2f, .2f, .2f, .2f };
	struct attention_map m = map(w, LENGTH);
	const uint32_t want[LAYERS] = { 2, 0, 4, 0 };

	for (uint32_t l = 0; l < LAYERS; l++)
		assert_int_equal(attention_most(&m, l), want[l]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_first_layer),
	cmocka_unit_test(test_first_of_several),
	cmocka_unit_test(test_lengths),
	cmocka_unit_test(test_nothing),
	cmocka_unit_test(test_most),
};

TEST_FILE(tests)
