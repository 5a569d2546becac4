/*
 * Where the builders of token trees end, each of them: a drafter that has no
 * room or fails, and limits that leave the root alone.
 */
#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/tree_draw.h"

#include <errno.h>

#define N_BUILDERS 5

static int build(int which, struct tree *t, const struct drafter *d,
	const struct build_limits *l, struct err *e)
{
	static const uint32_t width[] = { 2, 2, 2, 2, 2, 2 };
	static const struct edgellm pace = { .alpha = 1e-4 };

	switch (which) {
	case 0:
		return build_chain(t, d, l, e);
	case 1:
		return build_specinfer(t, d, l, width, 6, e);
	case 2:
		return build_eagle2(t, d, l, 4, e);
	case 3:
		return build_opt(t, d, l, 0, e);
	default:
		return build_edgellm(t, d, l, &pace, e);
	}
}

/* The drafter's room ends anywhere, right behind the root too. */
static void test_no_room(void **state)
{
	for (int which = 0; which < N_BUILDERS; which++)
		for (uint32_t room = 1; room < 20; room++) {
			struct hash_drafter h = {
				.seed = room, .k = 3, .sharp = 1, .room = room
			};
			const struct drafter d = hash_drafter(&h, 4);
			const struct build_limits l = { 40, 6 };
			struct tree *t = open_tree(l.rows, h.k);
			struct err e = { 0 };

			hash_begin(&h, t);
			assert_ok(build(which, t, &d, &l, &e), &e);
			hash_check_tree(&h, t, l.rows, l.depth);
			assert_true(t->n > 1);
			/* Without a draft of the text itself. */
			tree_reset(t, 7);
			h.room = 1;
			assert_ok(build(which, t, &d, &l, &e), &e);
			assert_int_equal(t->n, 1);
			tree_close(t);
		}
}

static void test_drafter_fails(void **state)
{
	for (int which = 0; which < N_BUILDERS; which++)
		for (uint32_t fail = 1; fail < 4; fail++) {
			struct hash_drafter h = {
				.seed = fail, .k = 3, .sharp = 1, .fail = fail
			};
			const struct drafter d = hash_drafter(&h, 4);
			const struct build_limits l = { 40, 6 };
			struct tree *t = open_tree(l.rows, h.k);
			struct err e = { 0 };

			hash_begin(&h, t);
			assert_int_equal(build(which, t, &d, &l, &e), -EIO);
			hash_check_tree(&h, t, t->capacity, l.depth);
			tree_close(t);
		}
}

/* No row but the root's, and no depth. */
static void test_root_alone(void **state)
{
	static const struct build_limits limits[] = { { 1, 5 }, { 9, 0 } };

	for (int which = 0; which < N_BUILDERS; which++)
		for (int i = 0; i < 2; i++) {
			struct hash_drafter h = { .seed = 3, .k = 3 };
			const struct drafter d = hash_drafter(&h, 4);
			struct tree *t = open_tree(limits[i].rows, h.k);
			struct err e = { 0 };

			hash_begin(&h, t);
			assert_ok(build(which, t, &d, &limits[i], &e), &e);
			assert_int_equal(t->n, 1);
			assert_int_equal(h.calls, 0);
			assert_int_equal(t->n_candidates[0], h.k);
			tree_close(t);
		}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_room),
	cmocka_unit_test(test_drafter_fails),
	cmocka_unit_test(test_root_alone),
};

TEST_FILE(tests)
