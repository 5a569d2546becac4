/*
 * Limits of each builder of token trees: a drafter that has no more room or
 * that fails, and limits that allow only the root.
 */
#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/tree_draw.h"

#include <errno.h>
#include <stdbool.h>

#define N_BUILDERS 5

static void begin(struct build *b, int which, struct tree *t,
	const struct build_limits *l)
{
	static const uint32_t width[] = { 2, 2, 2, 2, 2, 2 };
	static const struct edgellm pace = { .alpha = 1e-4 };

	if (which == 0)
		build_chain_begin(b, t, l);
	else if (which == 1)
		build_specinfer_begin(b, t, l, width, 6);
	else if (which == 2)
		build_eagle2_begin(b, t, l, 4);
	else if (which == 3)
		build_opt_begin(b, t, l, 0);
	else
		build_edgellm_begin(b, t, l, &pace);
}

static int build(int which, struct tree *t, const struct drafter *d,
	const struct build_limits *l, struct err *e)
{
	struct build b = { 0 };

	begin(&b, which, t, l);
	return build_run(&b, d, e);
}

/* The drafter can make only a limited number of expansions, which may be used
 * up at any node, also directly after the root. */
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
			/* The drafter has no expansion left, not even for the
			 * root, so the tree has only the root. */
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

/* The limits allow no row besides the root's, or no depth. */
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

/* All builders build at the same time: in turn, each runs one step, until all
 * trees are complete. Then all builders build their trees once more. Each tree
 * must equal the tree that its builder builds alone. */
static void test_side_by_side(void **state)
{
	const struct build_limits l = { 40, 6 };
	struct build b[N_BUILDERS] = { 0 };
	struct hash_drafter h[N_BUILDERS], other = { .seed = 5, .k = 3 };
	struct tree *t[N_BUILDERS], *alone = open_tree(l.rows, 3);
	const struct drafter d = hash_drafter(&other, 1);
	struct err e = { 0 };
	bool grows[N_BUILDERS];
	const uint32_t *node;
	uint32_t n;

	for (int i = 0; i < N_BUILDERS; i++)
		t[i] = open_tree(l.rows, 3);
	for (int round = 0; round < 2; round++) {
		int growing = N_BUILDERS;

		for (int i = 0; i < N_BUILDERS; i++) {
			h[i] = (struct hash_drafter){ .seed = 5, .k = 3 };
			hash_begin(&h[i], t[i]);
			begin(&b[i], i, t[i], &l);
			grows[i] = true;
		}
		for (int i = 0; growing; i = (i + 1) % N_BUILDERS) {
			if (!grows[i])
				continue;
			grows[i] = build_next(&b[i], &node, &n, &e) ==
				BUILD_EXPAND;
			if (grows[i])
				hash_expand(&h[i], t[i], node, n, &e);
			else
				growing--;
		}
	}
	for (int i = 0; i < N_BUILDERS; i++) {
		hash_begin(&other, alone);
		assert_ok(build(i, alone, &d, &l, &e), &e);
		assert_int_equal(t[i]->n, alone->n);
		assert_memory_equal(t[i]->token, alone->token,
			alone->n * sizeof(*alone->token));
		assert_int_equal(h[i].calls, other.calls);
		build_release(&b[i]);
		tree_close(t[i]);
	}
	tree_close(alone);
}

/* A layer has more nodes than can be expanded at once. */
static void test_wide_layer(void **state)
{
	const struct build_limits l = { 256, 3 };
	struct hash_drafter h = { .seed = 3, .k = 16 };
	const struct drafter d = hash_drafter(&h, 1);
	struct tree *t = open_tree(l.rows, h.k);
	struct build b = { 0 };
	struct err e = { 0 };

	hash_begin(&h, t);
	build_eagle2_begin(&b, t, &l, 100);
	assert_ok(build_run(&b, &d, &e), &e);
	assert_int_equal(t->n, l.rows);
	assert_int_equal(h.nodes, 1 + 16 + 100);
	assert_int_equal(h.calls, 3);
	assert_int_equal(h.largest, BUILD_BATCH);
	tree_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_room),
	cmocka_unit_test(test_drafter_fails),
	cmocka_unit_test(test_root_alone),
	cmocka_unit_test(test_side_by_side),
	cmocka_unit_test(test_wide_layer),
};

TEST_FILE(tests)
