/*
 * Cache entries refreshed while the device runs passes ($TANDEM_NPU; skipped if
 * unset). The results must equal those of a refresh during which no pass runs,
 * whatever the passes overwrite and wherever the device has its weights.
 * Nothing is merged into the cache during a pass. No more bytes than necessary
 * are copied, merged and reported to the device.
 */
#include "tests/host/session/refresh_fixture.h"

#include <errno.h>

struct beside {
	struct refresh *r;
	const struct rows *rows;
	unsigned calls;
};

static int try_within(void *arg, struct err *e)
{
	struct beside *b = arg;
	struct err mine = { 0 };

	b->calls++;
	assert_int_equal(refresh_merge(b->r, NULL, 0, 0, &mine), -EBUSY);
	assert_non_null(strstr(mine.text, "between passes"));
	assert_int_equal(refresh_start(b->r, b->rows, false, &mine), -EBUSY);
	return 0;
}

/* A pass may overwrite entries while the refresh reads them, and nothing is
 * merged before the pass has ended. */
static void check_beside(struct fixture *f)
{
	struct refresh *r = refresher(f, (struct refresh_opts){ 2 });
	struct beside b = { .r = r };
	const struct session_hooks hooks = { .meanwhile = try_within,
		.arg = &b };
	int32_t t[LONG], other[LONG];
	struct some all, few, window;
	uint8_t is_fresh[LONG] = { 0 }, *alone, *after;
	uint32_t n = f->file.n_embd;
	struct err e = { 0 };
	float *x;

	tokens(f, 110, t, LONG);
	tokens(f, 111, other, LONG);
	pick_all(&all, t);
	pass(f, &all);
	pick_any(&few, other);
	refresh(r, &few);
	alone = cached(f);
	x = malloc(few.rows.n * n * sizeof(*x));
	memcpy(x, refresh_hidden(r, 0), few.rows.n * n * sizeof(*x));
	pass(f, &all);

	tokens(f, 112, other, LONG);
	pick_any(&window, other);
	start(r, &few);
	b.rows = &few.rows;
	assert_ok(session_forward(f->s, &window.rows, &hooks, &e), &e);
	assert_in_range(b.calls, 2, 7);
	assert_ok(session_accept(f->s, SESSION_TEXT, NULL, window.rows.n, &e),
		&e);
	after = cached(f);
	finish(r);
	same_cache(f, after, "before a merge");
	same_bytes(refresh_hidden(r, 0), x, few.rows.n * n * sizeof(*x),
		"states beside a pass", 0);
	for (uint32_t i = 0; i < few.rows.n; i++)
		is_fresh[few.row[i].position] = 1;
	assert_ok(refresh_merge(r, NULL, 0, 3, &e), &e);
	check_cache(f, after, alone, is_fresh, 3, "merged from layer 3");
	merge(r);
	check_cache(f, after, alone, is_fresh, 0, "merged");
	refresh_close(r);
	free(alone);
	free(after);
	free(x);
}

/* Run check_beside for every placement of the device's weights, also when some
 * weights are swapped. */
static void test_beside(void **state)
{
	struct fixture *f = *state;

	for (unsigned v = 0; v < VARIANTS; v++) {
		take(f, &variants[v]);
		f->opts.placement = v % PLACEMENT_FIXED;
		f->opts.va_slots = v < 4 ? 5 : 16;
		open_it(f);
		check_beside(f);
		close_it(f);
	}
}

/* Most weights are copied into the device's window layer by layer. The host
 * reads the weights from their permanent buffers. */
static void test_swapped(void **state)
{
	struct session_stats stats;
	struct fixture *f = *state;

	take(f, &variants[1]);
	f->file.n_ff = 16384;
	f->opts.placement = PLACEMENT_SWAP;
	f->opts.swap_poison = true;
	f->opts.va_window = 16 << 20;
	open_it(f);
	check_beside(f);
	check_unchanged(f, 30);
	session_stats(f->s, &stats);
	assert_in_range(stats.temporary_blocks, 2, 7);
	close_it(f);
}

/* A refresh copies only the entries that were written since the previous
 * refresh copied them, and only requested rows are merged into the cache. */
static void test_copies(void **state)
{
	struct fixture *f = *state;
	struct refresh_stats stats;
	struct refresh *r;
	int32_t t[LONG];
	uint8_t *was, *now, fresh[LONG] = { [20] = 1, [22] = 1, [40] = 1 };
	uint8_t chosen[LONG] = {
		[3] = 1, [20] = 1, [21] = 1, [22] = 1, [40] = 1
	};
	struct err e = { 0 };
	struct some p;

	take(f, &variants[1]);
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 0 });
	tokens(f, 120, t, LONG);
	pick_all(&p, t);
	pass(f, &p);
	was = cached(f);
	tokens(f, 121, t, LONG);
	pick(&p, t, chosen);
	refresh(r, &p);
	now = cached(f);
	refresh_stats(r, &stats);
	assert_int_equal(stats.copied, LONG);
	assert_int_equal(stats.merged, 5);

	pick_all(&p, t);
	tokens(f, 120, t, LONG);
	for (uint32_t i = 0; i < LONG; i++)
		p.row[i].token = t[i];
	pass(f, &p);
	same_cache(f, was, "the text again");
	tokens(f, 121, t, LONG);
	pick(&p, t, chosen);
	start(r, &p); /* copies all entries, because all were written */
	finish(r);
	assert_ok(
		refresh_merge(r, (const uint32_t[]){ 1, 3, 4 }, 3, 0, &e), &e);
	check_cache(f, was, now, fresh, 0, "three of five");
	refresh_stats(r, &stats);
	assert_int_equal(stats.copied, 2 * LONG);
	assert_int_equal(stats.merged, 8);

	start(r, &p); /* copies the two entries that were not merged */
	finish(r);
	refresh_stats(r, &stats);
	assert_int_equal(stats.copied, 2 * LONG + 2);
	assert_int_equal(stats.rows, 15);
	refresh_drop(r);
	assert_false(refresh_finish(r, true));
	refresh_close(r);
	free(was);
	free(now);
	close_it(f);
}

static uint64_t lines_of_pass(struct fixture *f, const struct some *p)
{
	struct session_stats before, after;

	session_stats(f->s, &before);
	pass(f, p);
	session_stats(f->s, &after);
	return after.invalidated_lines - before.invalidated_lines;
}

/* The device invalidates only the merged rows and not the bytes between them,
 * even if many scattered rows are merged. */
static void test_invalidated(void **state)
{
	struct fixture *f = *state;
	struct session_stats before, after;
	uint64_t alone, lines;
	struct some all, few;
	struct refresh *r;
	int32_t t[LONG];
	uint8_t chosen[LONG] = { 0 };

	take(f, &variants[1]);
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 2 });
	tokens(f, 125, t, LONG);
	pick_all(&all, t);
	pass(f, &all);
	alone = lines_of_pass(f, &all);
	for (uint32_t n = 1; n <= 14; n++) {
		chosen[5 * n + n % 2] = 1;
		pick(&few, t, chosen);
		start(r, &few);
		finish(r);
		session_stats(f->s, &before);
		merge(r);
		session_stats(f->s, &after);
		lines = after.invalidated_lines - before.invalidated_lines +
			lines_of_pass(f, &all) - alone;
		assert_int_equal(lines,
			n * 2 * f->file.n_layer * f->s->plan.kv_stride / 64);
	}
	refresh_close(r);
	close_it(f);
}

/* With refresh_opts.best_effort and without a simulated phone, a refresh ends
 * at an unknown time, and no pass waits for its result. */
static void test_best_effort(void **state)
{
	struct fixture *f = *state;
	struct refresh *r;
	int32_t t[LONG];
	struct some p;
	uint8_t *want;

	take(f, &variants[0]);
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 1, .best_effort = true });
	assert_false(refresh_finish(r, false));
	tokens(f, 130, t, LONG);
	pick_all(&p, t);
	pass(f, &p);
	want = cached(f);
	pick_any(&p, t);
	poison(f, &p);
	start(r, &p);
	while (!refresh_finish(r, false))
		continue;
	merge(r);
	same_cache(f, want, "best effort");
	start(r, &p); /* closed without checking whether it is ready */
	refresh_close(r);
	free(want);
	close_it(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_beside),
	TEST(test_swapped),
	TEST(test_copies),
	TEST(test_invalidated),
	TEST(test_best_effort),
};

TEST_FILE(tests)
