/*
 * Cache entries that the host recomputes, compared with those of a real device
 * process ($TANDEM_NPU; skipped if unset). For the same rows, the host computes
 * the same bytes as the device, in every precision and layout.
 */
#include "host/session/refresh.h"

#include "tests/host/session/refresh_fixture.h"

#include <errno.h>
#include <math.h>

/* ---- the same bytes ------------------------------------------------------ */

static void test_unchanged(void **state)
{
	struct fixture *f = *state;

	for (unsigned v = 0; v < VARIANTS; v++) {
		take(f, &variants[v]);
		/* Each block is in a buffer of its own (PLACEMENT_BELADY), or
		 * all blocks are in one buffer (PLACEMENT_SWAP). */
		f->opts.placement = v % 2 ? PLACEMENT_SWAP : PLACEMENT_BELADY;
		open_it(f);
		check_unchanged(f, v);
		close_it(f);
	}
}

/* In models with blocks, rows do not attend to later blocks. */
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

/* Check the bundled models, which are trained and have matrices of several
 * types. */
static void test_shipped(void **state)
{
	static const char *const files[] = { "flash/models/diffusion.gguf",
		"flash/models/block.gguf" };
	struct fixture *f = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct err e = { 0 };

		take(f, &variants[1]);
		assert_ok(model_open(&f->model, files[i], NULL, NULL, &e), &e);
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

/* After a few tokens change, a refresh of all positions changes all entries. */
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
	assert_ok(session_logits(f->s, 0, LONG, want, &e), &e);
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

/* ---- refusals ------------------------------------------------------------ */

static void refused(
	struct refresh *r, const struct rows *rows, int code, const char *what)
{
	struct err e = { 0 };

	assert_int_equal(refresh_start(r, rows, false, &e), code);
	if (!strstr(e.text, what))
		fail_msg("'%s' does not contain '%s'", e.text, what);
	assert_false(refresh_finish(r, true));
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct row row[2] = { { .position = 5 }, { .position = 7 } };
	struct rows rows = { VISIBILITY_WINDOW, 2, row };
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
	rows.visibility = VISIBILITY_TREE;
	refused(r, &rows, -EINVAL, "a tree");
	rows.visibility = VISIBILITY_WINDOW;
	row[1].position = LONG;
	refused(r, &rows, -EINVAL, "83 tokens are cached");
	row[1].position = 5;
	refused(r, &rows, -EINVAL, "position 5");
	row[1].position = 7;
	row[1].token = VOCAB;
	refused(r, &rows, -EINVAL, "vocabulary");
	row[1].token = 0;
	rows.n = 0;
	refused(r, &rows, -EINVAL, "an empty list");
	rows.n = 2;
	assert_ok(session_fork(f->s, SESSION_TEXT, &other, &e), &e);
	row[1].sequence = other;
	refused(r, &rows, -EINVAL, "one sequence, not of 2");
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

/* Only one refresh runs at a time. */
static void test_busy(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	struct refresh *r;
	int32_t t[LONG];
	struct some p;

	take(f, &variants[0]);
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 1 });
	tokens(f, 171, t, LONG);
	pick_all(&p, t);
	pass(f, &p);
	start(r, &p);
	assert_int_equal(refresh_start(r, &p.rows, false, &e), -EBUSY);
	assert_non_null(strstr(e.text, "while another is running"));
	finish(r);
	merge(r);
	refresh(r, &p);
	refresh_close(r);
	close_it(f);
}

/* If a cached value is not a number, the states of the rows that attend to it
 * are not numbers, and there are no logits of these rows. */
static void test_not_a_number(void **state)
{
	struct fixture *f = *state;
	float row[VOCAB], *logits = row, nan[16];
	uint8_t chosen[LONG] = { [5] = 1, [7] = 1 };
	const uint32_t last = 1;
	struct err e = { 0 };
	struct refresh *r;
	int32_t t[LONG];
	struct some p;

	take(f, &variants[0]);
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 1 });
	tokens(f, 172, t, LONG);
	pick_all(&p, t);
	pass(f, &p);
	assert_int_equal(f->file.n_kv_head * f->file.head_dim, 16);
	for (unsigned i = 0; i < 16; i++)
		nan[i] = NAN;
	assert_ok(sequence_write(f->s->sequences, SESSION_TEXT, 0, KV_VALUES,
			  20, 1, nan, &e),
		&e);
	pick(&p, t, chosen);
	start(r, &p);
	finish(r);
	assert_int_equal(refresh_logits(r, &last, 1, &logits, &e), -EPROTO);
	assert_non_null(strstr(e.text,
		"refresh of position 7 gave a value that is not a number"));
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
	assert_non_null(strstr(e.text, "causal model"));
	pair_close(&f->s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_unchanged),
	TEST(test_blocks),
	TEST(test_shipped),
	TEST(test_changed),
	TEST(test_threads),
	TEST(test_refused),
	TEST(test_busy),
	TEST(test_not_a_number),
	TEST(test_causal),
};

TEST_FILE(tests)
