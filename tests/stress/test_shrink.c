#include "tests/harness.h"

#include "tests/stress/shrink.h"

#include "base/checked.h"

static const struct stress_verb table[] = {
	{ "noise", { { "n", 0, 1000 } } },
	{ "load", { { "n", 3, 1000 } } },
	{ "fire", { { NULL } } },
};
static const struct stress_verbs verbs = { "gun", table, ARRAY_LEN(table) };
enum { NOISE, LOAD, FIRE };

/* A schedule fails if it has LOAD steps, whose values add up to at least 100,
 * followed by a FIRE step. */
static bool fails(void *arg, const struct stress_schedule *s)
{
	unsigned *asked = arg;
	uint32_t loaded = 0;

	++*asked;
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->step[i].verb == LOAD)
			loaded += s->step[i].value[0];
		if (s->step[i].verb == FIRE && loaded >= 100)
			return true;
	}
	return false;
}

static void draw(struct stress_schedule *s, uint64_t seed)
{
	struct stress_draw d = { .seed = seed };

	s->n = 0;
	for (unsigned i = 0; i < 200; i++)
		STRESS_ADD(
			s, i % 7 == 3 ? LOAD : NOISE, 3 + stress_below(&d, 30));
	STRESS_ADD(s, FIRE, 0);
	STRESS_ADD(s, NOISE, 1);
}

static void test_small(void **state)
{
	uint64_t seed = harness_seed();

	for (uint64_t i = 0; i < 20; i++) {
		struct stress_schedule s;
		unsigned asked = 0;
		struct stress_shrink k = { fails, &asked, 5000 };
		uint32_t sum = 0;

		draw(&s, seed + i);
		assert_true(stress_make_small(&s, &verbs, &k));
		assert_true(fails(&asked, &s));
		assert_int_equal(s.step[s.n - 1].verb, FIRE);
		for (uint32_t j = 0; j < s.n - 1; j++) {
			assert_int_equal(s.step[j].verb, LOAD);
			sum += s.step[j].value[0];
		}
		/* No number can be reduced by one. */
		assert_int_equal(sum, 100);
		/* The values of the LOAD steps, each at least 3, add up to 100,
		 * so besides FIRE there are at most 33 steps. */
		assert_true(s.n <= 1 + 100 / 3);
	}
}

static void test_tries(void **state)
{
	struct stress_schedule s;
	unsigned asked = 0;
	struct stress_shrink k = { fails, &asked, 10 };

	draw(&s, 1);
	assert_false(stress_make_small(&s, &verbs, &k));
	assert_int_equal(asked, 10);
	assert_true(fails(&asked, &s));
}

static bool always(void *arg, const struct stress_schedule *s)
{
	return true;
}

static void test_nothing_left(void **state)
{
	struct stress_schedule s;
	struct stress_shrink k = { always, NULL, 5000 };

	draw(&s, 1);
	assert_true(stress_make_small(&s, &verbs, &k));
	assert_int_equal(s.n, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_small),
	cmocka_unit_test(test_tries),
	cmocka_unit_test(test_nothing_left),
};

TEST_FILE(tests)
