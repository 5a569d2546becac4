/*
 * Hidden states that a pass keeps after some layer. A model of the remaining
 * layers continues from them and gives the results of the whole model, bit for
 * bit, for prompts and trees, with blocks of one layer and of many. Another
 * test checks refused options.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/session/session_fixture.h"

#include <errno.h>

#define LAYERS 5
#define PROMPT 37 /* in chunks of 16: two full chunks and a remainder */
#define TREE   12
#define WIDTH  32 /* embedding width of model_file_tiny */

struct kept {
	float state[PROMPT + TREE][WIDTH], last[TREE][WIDTH];
	size_t n;
};

/* Keep the states of rows [0, rows) of the pass that has just ended. */
static void take(struct session *s, struct kept *k, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++)
		memcpy(k->state[k->n++], session_tapped(s, i),
			sizeof(k->state[0]));
}

struct reading {
	struct session *s;
	struct kept *k;
};

static void take_chunk(void *arg, size_t at, uint32_t rows)
{
	struct reading *r = arg;

	assert_int_equal(at, r->k->n);
	take(r->s, r->k, rows);
}

static void make_tree(struct fixture *f, int32_t *t, int32_t *parent)
{
	tokens(f, 2, t, TREE);
	for (int i = 0; i < TREE; i++)
		parent[i] = i / 3 - 1;
}

/* Compute a prompt and a tree through all layers, and keep the hidden states
 * after `tap` layers. */
static void run_whole(struct fixture *f, uint32_t tap, struct kept *k)
{
	struct reading reading = { .k = k };
	const struct session_reader reader = { .chunk = take_chunk,
		.arg = &reading };
	int32_t t[PROMPT], parent[TREE];
	struct err e = { 0 };
	uint32_t last;

	k->n = 0;
	f->opts.tap_layers = tap;
	open_session(f);
	reading.s = f->s;
	assert_int_equal(session_tap_layers(f->s), tap);
	tokens(f, 1, t, PROMPT);
	assert_ok(session_prefill(
			  f->s, SESSION_TEXT, t, PROMPT, &reader, &last, &e),
		&e);
	assert_int_equal(k->n, PROMPT);
	make_tree(f, t, parent);
	forward(f, t, parent, TREE);
	take(f->s, k, TREE);
	for (uint32_t i = 0; i < TREE; i++)
		memcpy(k->last[i], session_hidden(f->s, i), sizeof(k->last[0]));
	pair_close(&f->s);
	f->opts.tap_layers = 0;
}

static void run_rows(struct session *s, const struct kept *k, size_t first,
	uint32_t n, const int32_t *parent)
{
	const float *state[PROMPT];
	struct row row[PROMPT];
	const struct rows rows = { VISIBILITY_TREE, n, row, state };
	/* the token ids have no effect, because the rows have states */
	const int32_t token[PROMPT] = { 0 };
	struct err e = { 0 };

	for (uint32_t i = 0; i < n; i++)
		state[i] = k->state[first + i];
	rows_tree(row, SESSION_TEXT, session_length(s, SESSION_TEXT), token,
		parent, n);
	assert_ok(session_forward(s, &rows, NULL, &e), &e);
}

static void check_tail(struct fixture *f, uint32_t tap)
{
	struct session_opts o = f->opts;
	struct model *tail;
	struct session *s;
	struct err e = { 0 };
	struct kept k;
	int32_t t[TREE], parent[TREE];

	run_whole(f, tap, &k);
	/* the whole prompt in one pass, because its states are the input */
	o.prefill_chunk = TREE_MAX;
	assert_ok(model_tail(&tail, f->model, tap, &e), &e);
	assert_int_equal(tail->n_layer, LAYERS - tap);
	assert_int_equal(tail->layers_before, tap);
	pair_open(&s, tail, &o);
	run_rows(s, &k, 0, PROMPT, NULL);
	assert_ok(session_accept(s, SESSION_TEXT, NULL, PROMPT, &e), &e);
	make_tree(f, t, parent);
	run_rows(s, &k, PROMPT, TREE, parent);
	for (uint32_t i = 0; i < TREE; i++)
		same_bytes(session_hidden(s, i), k.last[i], sizeof(k.last[0]),
			"row", i);
	pair_close(&s);
	model_close(tail);
}

static void test_tail(void **state)
{
	static const uint32_t blocks[] = { 1, 2, LAYERS };
	struct fixture *f = *state;

	f->file.n_layer = LAYERS;
	for (unsigned i = 0; i < ARRAY_LEN(blocks); i++) {
		f->opts.weight_buffers = blocks[i];
		f->opts.coherence = i ? COHERENCE_CHECK : COHERENCE_OFF;
		for (uint32_t tap = 1; tap < LAYERS; tap += 1 + i)
			check_tail(f, tap);
	}
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	const float *none[1] = { NULL };
	struct row row = { .parent = -1 };
	struct rows rows = { VISIBILITY_TREE, 1, &row, none };
	struct model *tail;
	struct err e = { 0 };

	f->file.n_layer = LAYERS;
	open_session(f);
	assert_int_equal(session_forward(f->s, &rows, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "rows with input hidden states"));
	pair_close(&f->s);
	assert_ok(model_tail(&tail, f->model, 3, &e), &e);
	pair_open(&f->s, tail, &f->opts);
	rows.state = NULL;
	assert_int_equal(session_forward(f->s, &rows, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "rows without input hidden states"));
	pair_close(&f->s);
	model_close(tail);
	f->opts.tap_layers = LAYERS;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EINVAL);
	f->opts.tap_layers = f->opts.exit_layers = 2;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EINVAL);
	f->s = NULL;
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_tail),
	TEST(test_refused),
};

TEST_FILE(tests)
