/*
 * The cache refreshed by the host, beside a real device process (TANDEM_NPU;
 * skipped without): what the host computes is, byte by byte, what the device
 * computes of the same rows, in every precision and layout, whatever passes do
 * meanwhile.
 */
#include "host/session/refresh.h"

#include "tests/host/session/refresh_fixture.h"

#include <errno.h>

/* ---- bytes --------------------------------------------------------------- */

static size_t half_bytes(const struct fixture *f)
{
	return LONG * session_kv_bytes(f->s);
}

static uint8_t *cached(struct fixture *f)
{
	uint8_t *all = malloc(2 * f->file.n_layer * half_bytes(f));
	struct err e = { 0 };

	for (uint32_t h = 0; h < 2 * f->file.n_layer; h++)
		assert_ok(session_read_kv(f->s, SESSION_TEXT, h / 2, h % 2, 0,
				  LONG, all + h * half_bytes(f), &e),
			&e);
	return all;
}

/* Of position i: what `now` has where that is said, else what `was` has. */
static void check_cache(struct fixture *f, const uint8_t *was,
	const uint8_t *now, const uint8_t *is_now, uint32_t from_layer,
	const char *what)
{
	uint8_t *got = cached(f);
	size_t n = session_kv_bytes(f->s);

	for (uint32_t h = 0; h < 2 * f->file.n_layer; h++)
		for (uint32_t i = 0; i < LONG; i++) {
			size_t at = h * half_bytes(f) + i * n;
			bool fresh = is_now && is_now[i] && h / 2 >= from_layer;

			if (memcmp(got + at, (fresh ? now : was) + at, n) != 0)
				fail_msg("%s: %s of layer %u at %u differ",
					what, h % 2 ? "values" : "keys", h / 2,
					i);
		}
	free(got);
}

static void same_cache(struct fixture *f, const uint8_t *want, const char *what)
{
	check_cache(f, want, NULL, NULL, 0, what);
}

/* What is cached of the rows themselves must not matter to them. */
static void poison(struct fixture *f, const struct some *p)
{
	enum wire_precision precision = f->opts.precision;
	bool f16 = precision == WIRE_F16_KV16 || precision == WIRE_NPU;
	uint8_t junk[2048] = { 0 };
	struct err e = { 0 };

	/* Behind a slot's values are bytes that nobody writes. */
	assert_in_range(session_kv_bytes(f->s), 1, sizeof(junk));
	memset(junk, 0x3c,
		(size_t)f->file.n_kv_head * f->file.head_dim * (f16 ? 2 : 4));
	for (uint32_t i = 0; i < p->rows.n; i++)
		for (uint32_t h = 0; h < 2 * f->file.n_layer; h++)
			assert_ok(
				session_write_kv(f->s, SESSION_TEXT, h / 2,
					h % 2, p->row[i].position, 1, junk, &e),
				&e);
}

static float *states(struct fixture *f, uint32_t n)
{
	float *x = malloc(n * f->file.n_embd * sizeof(*x));

	for (uint32_t i = 0; i < n; i++)
		memcpy(x + i * f->file.n_embd, session_hidden(f->s, i),
			f->file.n_embd * sizeof(*x));
	return x;
}

/* Of rows that stand at their positions in a pass of the whole text. */
static void same_states(struct fixture *f, const struct refresh *r,
	const struct some *p, const float *want)
{
	for (uint32_t i = 0; i < p->rows.n; i++)
		same_bytes(refresh_hidden(r, i),
			want + p->row[i].position * f->file.n_embd,
			f->file.n_embd * sizeof(*want), "state of position",
			p->row[i].position);
}

/* ---- the same bytes ------------------------------------------------------ */

static void check_unchanged(struct fixture *f, unsigned v)
{
	struct refresh *r = refresher(f, (struct refresh_opts){ 1 + v % 3 });
	int32_t t[LONG];
	struct some p;
	uint8_t *want;
	float *x;
	char what[32];

	snprintf(what, sizeof(what), "variant %u", v);
	tokens(f, 70 + v, t, LONG);
	pick_all(&p, t);
	if (f->model->block_length)
		end_blocks(&p);
	pass(f, &p);
	want = cached(f);
	x = states(f, LONG);
	for (int i = 0; i < 6; i++) {
		if (i)
			pick_any(&p, t);
		if (f->model->block_length)
			end_blocks(&p);
		poison(f, &p);
		refresh(r, &p);
		same_states(f, r, &p, x);
		same_cache(f, want, what);
	}
	refresh_close(r);
	free(want);
	free(x);
}

static void test_unchanged(void **state)
{
	struct fixture *f = *state;

	for (unsigned v = 0; v < VARIANTS; v++) {
		take(f, &variants[v]);
		/* Blocks in buffers of their own, or behind one another. */
		f->opts.placement = v % 2 ? PLACEMENT_SWAP : PLACEMENT_BELADY;
		open_it(f);
		check_unchanged(f, v);
		close_it(f);
	}
}

/* Blocks see nothing behind them. */
static void test_blocks(void **state)
{
	struct fixture *f = *state;
	struct refresh *r;
	int32_t t[LONG];
	struct some p;
	uint8_t *want;

	take(f, &variants[1]);
	f->file.keys = put_blocks;
	open_it(f);
	r = refresher(f, (struct refresh_opts){ .threads = 2 });
	tokens(f, 80, t, LONG);
	pick_all(&p, t);
	end_blocks(&p);
	pass(f, &p);
	want = cached(f);
	for (int i = 0; i < 6; i++) {
		pick_any(&p, t);
		end_blocks(&p);
		poison(f, &p);
		refresh(r, &p);
		same_cache(f, want, "blocks");
	}
	refresh_close(r);
	free(want);
	close_it(f);
}

/* Models that come with the program: trained, with matrices of several types.
 */
static void test_shipped(void **state)
{
	static const char *const files[] = { "flash/models/diffusion.gguf",
		"flash/models/block.gguf" };
	struct fixture *f = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct err e = { 0 };

		take(f, &variants[1]);
		assert_ok(model_open(&f->model, files[i], &e), &e);
		f->file.n_layer = f->model->n_layer;
		f->file.n_embd = f->model->n_embd;
		f->file.n_kv_head = f->model->n_kv_head;
		f->file.head_dim = f->model->head_dim;
		f->file.n_vocab = f->model->n_vocab;
		open_it(f);
		check_unchanged(f, 20 + i);
		close_it(f);
	}
}

/* Another token here and there changes everything. */
static void check_changed(struct fixture *f, unsigned v)
{
	static float want[LONG * VOCAB], got[LONG * VOCAB];
	struct refresh *r = refresher(f, (struct refresh_opts){ 2 });
	float *out[LONG], *x;
	uint32_t row[LONG];
	int32_t t[LONG], other[LONG];
	struct session_stats before, after;
	struct some p;
	struct err e = { 0 };
	uint8_t *kv;

	tokens(f, 90 + v, t, LONG);
	memcpy(other, t, sizeof(other));
	for (uint32_t i = 0; i < LONG; i += 11)
		other[i] = (other[i] + 1) % VOCAB;
	pick_all(&p, other);
	pass(f, &p);
	kv = cached(f);
	x = states(f, LONG);
	assert_ok(session_logits_range(f->s, 0, LONG, want, &e), &e);
	pick_all(&p, t);
	pass(f, &p);
	pick_all(&p, other);
	refresh(r, &p);
	same_cache(f, kv, "changed tokens");
	same_states(f, r, &p, x);
	for (uint32_t i = 0; i < LONG; i++) {
		row[i] = LONG - 1 - i;
		out[i] = got + row[i] * VOCAB;
	}
	session_stats(f->s, &before);
	assert_ok(refresh_logits(r, row, LONG, out, &e), &e);
	session_stats(f->s, &after);
	same_bytes(got, want, sizeof(got), "logits", 0);
	assert_int_equal(after.logits_rows - before.logits_rows, LONG);
	refresh_close(r);
	free(kv);
	free(x);
}

static void test_changed(void **state)
{
	struct fixture *f = *state;

	for (unsigned v = 0; v < VARIANTS; v += 2) {
		take(f, &variants[v]);
		open_it(f);
		check_changed(f, v);
		close_it(f);
	}
}

static void test_threads(void **state)
{
	static const unsigned threads[] = { 1, 2, 3, 8 };
	struct fixture *f = *state;
	uint8_t *kv = NULL;
	float *x = NULL;

	take(f, &variants[2]);
	open_it(f);
	for (unsigned i = 0; i < 4; i++) {
		struct refresh_opts opts = { .threads = threads[i] };
		struct refresh *r = refresher(f, opts);
		size_t width = f->file.n_embd;
		int32_t t[LONG];
		struct some p;

		tokens(f, 100, t, LONG);
		pick_all(&p, t);
		pass(f, &p);
		tokens(f, 101, t, LONG);
		draws = 1000;
		pick_any(&p, t);
		refresh(r, &p);
		if (!kv) {
			kv = cached(f);
			x = malloc(p.rows.n * width * sizeof(*x));
			memcpy(x, refresh_hidden(r, 0),
				p.rows.n * width * sizeof(*x));
		}
		same_cache(f, kv, "another number of threads");
		same_bytes(refresh_hidden(r, 0), x,
			p.rows.n * width * sizeof(*x), "states", threads[i]);
		refresh_close(r);
	}
	free(kv);
	free(x);
	close_it(f);
}

/* ---- beside a pass ------------------------------------------------------- */

struct beside {
	struct refresh *r;
	const struct rows *rows;
	unsigned asked;
};

static int try_within(void *arg, struct err *e)
{
	struct beside *b = arg;
	struct err mine = { 0 };

	b->asked++;
	assert_int_equal(refresh_merge(b->r, NULL, 0, 0, &mine), -EBUSY);
	assert_non_null(strstr(mine.text, "between passes"));
	assert_int_equal(refresh_start(b->r, b->rows, false, &mine), -EBUSY);
	return 0;
}

/* A pass may overwrite what is being read, and nothing is merged before it has
 * ended. */
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
	assert_ok(session_forward_with(f->s, &window.rows, &hooks, &e), &e);
	assert_in_range(b.asked, 2, 7);
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

static void test_beside(void **state)
{
	struct fixture *f = *state;

	for (unsigned v = 0; v < VARIANTS; v += 3) {
		take(f, &variants[v]);
		open_it(f);
		check_beside(f);
		close_it(f);
	}
}

/* Only what was written since is copied again, and only what is named goes to
 * the cache. */
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
	start(r, &p); /* all was written */
	finish(r);
	assert_ok(
		refresh_merge(r, (const uint32_t[]){ 1, 3, 4 }, 3, 0, &e), &e);
	check_cache(f, was, now, fresh, 0, "three of five");
	refresh_stats(r, &stats);
	assert_int_equal(stats.copied, 2 * LONG);
	assert_int_equal(stats.merged, 8);

	start(r, &p); /* the two that were not merged */
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

/* However many rows are merged and however they lie scattered, the device
 * invalidates what they are and not what is between them. */
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
			n * 2 * f->file.n_layer * session_kv_bytes(f->s) / 64);
	}
	refresh_close(r);
	close_it(f);
}

/* Without a phone it is ready some time; nobody waits. */
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
	start(r, &p); /* and is not looked at again */
	refresh_close(r);
	free(want);
	close_it(f);
}

/* ---- refused ------------------------------------------------------------- */

static void refused(
	struct refresh *r, const struct rows *rows, int code, const char *what)
{
	struct err e = { 0 };

	assert_int_equal(refresh_start(r, rows, false, &e), code);
	if (!strstr(e.text, what))
		fail_msg("'%s' does not say '%s'", e.text, what);
	assert_false(refresh_finish(r, true));
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct row row[2] = { { .position = 5 }, { .position = 7 } };
	struct rows rows = { SIGHT_WINDOW, 2, row };
	int32_t t[LONG];
	struct err e = { 0 };
	struct refresh *r;
	struct some p;
	uint32_t other;

	take(f, &variants[0]);
	f->opts.sequences = 2;
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 0 });
	assert_int_equal(refresh_merge(r, NULL, 0, 0, &e), -EINVAL);
	refused(r, &rows, -EINVAL, "5");
	tokens(f, 170, t, LONG);
	pick_all(&p, t);
	pass(f, &p);
	rows.sight = SIGHT_TREE;
	refused(r, &rows, -EINVAL, "a tree");
	rows.sight = SIGHT_WINDOW;
	row[1].position = LONG;
	refused(r, &rows, -EINVAL, "83 tokens are cached");
	row[1].position = 5;
	refused(r, &rows, -EINVAL, "position 5");
	row[1].position = 7;
	row[1].token = VOCAB;
	refused(r, &rows, -EINVAL, "vocabulary");
	row[1].token = 0;
	rows.n = 0;
	refused(r, &rows, -EINVAL, "no rows");
	rows.n = 2;
	assert_ok(session_fork(f->s, SESSION_TEXT, &other, &e), &e);
	row[1].sequence = other;
	refused(r, &rows, -EINVAL, "2 sequences");
	row[0].sequence = other;

	assert_ok(refresh_start(r, &rows, false, &e), &e);
	finish(r);
	assert_int_equal(refresh_merge(r, (const uint32_t[]){ 1, 0 }, 2, 0, &e),
		-EINVAL);
	assert_int_equal(
		refresh_merge(r, (const uint32_t[]){ 2 }, 1, 0, &e), -EINVAL);
	assert_int_equal(refresh_merge(r, NULL, 0, 8, &e), -EINVAL);
	session_truncate(f->s, other, 6);
	assert_int_equal(refresh_merge(r, NULL, 0, 0, &e), -EINVAL);
	session_remove(f->s, other);
	assert_int_equal(refresh_merge(r, NULL, 0, 0, &e), -EINVAL);
	assert_non_null(strstr(e.text, "not open"));
	refresh_close(r);
	close_it(f);
}

static void test_causal(void **state)
{
	struct fixture *f = *state;
	const struct refresh_opts opts = { 0 };
	struct err e = { 0 };
	struct refresh *r;

	open_session(f);
	assert_int_equal(refresh_open(&r, f->s, &opts, &e), -EINVAL);
	assert_non_null(strstr(e.text, "left to right"));
	pair_close(&f->s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_unchanged),
	TEST(test_blocks),
	TEST(test_shipped),
	TEST(test_changed),
	TEST(test_threads),
	TEST(test_beside),
	TEST(test_copies),
	TEST(test_invalidated),
	TEST(test_best_effort),
	TEST(test_refused),
	TEST(test_causal),
};

TEST_MAIN(tests)
