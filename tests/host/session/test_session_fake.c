/*
 * Sessions on a fake device, which computes in the test process
 * (tests/host/npu/fake_device.h). Results equal those of a reference
 * transformer (reference_model.h), for every size of the device's address
 * window, and with layers in memory or read from flash. A lost device is
 * replaced in the middle of a text. Invalid results and answers of a device are
 * errors whose message names the invalid part.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/session/session.h"
#include "host/session/session_impl.h"
#include "shm/buffer.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/npu/fake_device.h"
#include "tests/host/session/reattach.h"

#include <errno.h>
#include <math.h>
#include <time.h>

#define LAYERS 6
#define VOCAB  96
#define CHUNK  8
#define TEXT   40

struct fixture {
	struct fake fake;
	struct model_file file;
	struct model *model;
	struct image_file image;
	struct session_opts opts;
	struct session *s;
	int32_t token[TEXT];
	float got[TEXT][VOCAB];
	double want[TEXT][VOCAB];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t seed = harness_seed();

	fake_init(&f->fake);
	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->opts = session_defaults;
	f->opts.npu = &f->fake.ops;
	f->opts.threads = 1;
	f->opts.prefill_chunk = CHUNK;
	f->opts.decode_rows = 4;
	f->opts.context = 64;
	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
	f->model = model_file_open(&f->file);
	for (uint64_t i = 0; i < TEXT; i++)
		f->token[i] = (int32_t)(rng_uniform(seed, 1, i) * VOCAB);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	image_file_remove(&f->image);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_session(struct fixture *f, const struct model *m)
{
	struct err e = { 0 };

	assert_ok(session_open(&f->s, m, &f->opts, &e), &e);
}

static void close_session(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
}

/* Compute n tokens from position `from` on and the logits of each token. */
static int forward(struct fixture *f, uint32_t from, uint32_t n, struct err *e)
{
	int ret = session_continue(f->s, SESSION_TEXT, &f->token[from], n, e);

	if (!ret)
		ret = session_logits(f->s, 0, n, f->got[from], e);
	return ret ? ret : session_accept(f->s, SESSION_TEXT, NULL, n, e);
}

static void go_on(struct fixture *f, uint32_t from, uint32_t to)
{
	struct err e = { 0 };

	for (uint32_t at = from, n; at < to; at += n) {
		n = at % 3 ? 1 : CHUNK;
		n = to - at < n ? to - at : n;
		assert_ok(forward(f, at, n, &e), &e);
	}
}

/* Compare the float32 logits with those of the reference transformer, which
 * computes in double precision. Rounding errors are far below the accepted
 * difference. */
static void check_reference(struct fixture *f)
{
	ref_logits(f->model->gguf, &f->file, f->token, TEXT, f->want[0]);
	for (unsigned i = 0; i < TEXT; i++)
		for (unsigned v = 0; v < VOCAB; v++)
			if (fabs((double)f->got[i][v] - f->want[i][v]) > 2e-5)
				fail_msg("row %u: logit %u is %.9g, not %.9g",
					i, v, (double)f->got[i][v],
					f->want[i][v]);
}

/* ---- results ------------------------------------------------------------- */

static void test_is_the_definition(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	open_session(f, f->model);
	go_on(f, 0, TEXT);
	check_reference(f);
	session_stats(f->s, &st);
	assert_string_equal(st.kern, "fake");
	assert_int_equal(st.blocks, LAYERS);
	assert_int_equal(st.maps, 2 + LAYERS);
	assert_int_equal(st.unmaps, 0);
	close_session(f);
	assert_int_equal(f->fake.reached, 1);
}

/* If there are fewer slots (mappings in the window) than blocks of weights,
 * blocks are swapped, and the logits stay the same. */
static void test_few_slots(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;
	struct err e = { 0 };

	for (f->opts.va_slots = 3; f->opts.va_slots < 8; f->opts.va_slots++) {
		memset(f->got, 0, sizeof(f->got));
		open_session(f, f->model);
		go_on(f, 0, TEXT);
		check_reference(f);
		session_stats(f->s, &st);
		assert_true(st.unmaps > 0);
		assert_int_equal(st.maps - st.unmaps, f->opts.va_slots);
		close_session(f);
	}
	f->opts.va_slots = 2;
	open_session(f, f->model);
	assert_int_equal(forward(f, 0, 1, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "2 of 2 slots used"));
}

static void open_image(struct fixture *f)
{
	image_file_open(&f->image, f->model, 0);
	f->opts.layout = LAYOUT_DEFAULT;
}

/* Some layers are streamed from flash, for several shares of memory and numbers
 * of slots. */
static void test_streamed(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	open_image(f);
	for (unsigned i = 0; i < 4; i++) {
		f->opts.dram_share = i / 6.;
		f->opts.stage_slots = 2 + i;
		memset(f->got, 0, sizeof(f->got));
		open_session(f, f->image.model);
		go_on(f, 0, TEXT);
		check_reference(f);
		session_stats(f->s, &st);
		assert_int_equal(st.resident_layers, i);
		assert_int_equal(
			st.staging.layers_used, st.passes * (LAYERS - i));
		close_session(f);
	}
}

/* Reading ahead continues while the host works and reports its work, and stops
 * while the session is idle. */
static void test_reads_on_while_the_host_works(void **state)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };
	const struct price nothing = { 0 };
	struct fixture *f = *state;
	struct session_stats idle, st;
	uint64_t all;
	struct err e = { 0 };

	open_image(f);
	f->opts.dram_share = 0;
	f->opts.stage_slots = 4;
	open_session(f, f->image.model);
	go_on(f, 0, 1);
	assert_ok(session_continue(f->s, SESSION_TEXT, f->token, 1, &e), &e);
	session_stats(f->s, &idle);
	/* `all` is the number of bytes read when the staging slots are all full
	 * after the pass. The layers have equal sizes. */
	all = idle.staging.bytes_used / idle.staging.layers_used *
		(idle.staging.layers_used + f->opts.stage_slots);
	for (unsigned i = 0; i < 50; i++)
		nanosleep(&ms, NULL);
	session_stats(f->s, &st);
	assert_int_equal(st.staging.stream.bytes, idle.staging.stream.bytes);
	assert_true(st.staging.stream.bytes < all);
	for (unsigned i = 0; i < 5000 && st.staging.stream.bytes < all; i++) {
		nanosleep(&ms, NULL);
		session_add_work_of(f->s, TRACE_PHONE_WORK, &nothing);
		session_stats(f->s, &st);
	}
	assert_int_equal(st.staging.stream.bytes, all);
	go_on(f, 1, TEXT);
	check_reference(f);
}

/* A second session runs another model on the same device. */
static void test_second_model(void **state)
{
	struct fixture *f = *state;
	struct session *first;

	open_session(f, f->model);
	first = f->s;
	f->opts.beside = first;
	open_session(f, f->model);
	go_on(f, 0, TEXT);
	check_reference(f);
	close_session(f);
	f->s = first;
	go_on(f, 0, TEXT);
	check_reference(f);
	assert_int_equal(f->fake.reached, 1);
}

/* The cost of another model is simulated whose keys and values need more than
 * one buffer. The further buffers only take room in the device's window. */
static void test_cache_of_several_buffers(void **state)
{
	static const struct shape wide = { .name = "wide",
		.arch = "qwen3",
		.n_vocab = VOCAB,
		.n_layer = LAYERS,
		.n_embd = 32,
		.n_head = 64,
		.n_kv_head = 64,
		.head_dim = 128,
		.n_ff = 64,
		.qk_norm = true };
	struct fixture *f = *state;
	uint64_t token = 2ull * LAYERS * 64 * 128 * sizeof(float);
	struct session_stats st;

	f->opts.as = &wide;
	f->opts.context = (uint32_t)(2 * BUFFER_MAX / token + 1);
	open_session(f, f->model);
	assert_int_equal(f->s->n_kv_more, 2);
	session_stats(f->s, &st);
	assert_int_equal(st.maps, 2 + 2 + LAYERS);
	assert_in_range(
		st.bytes_mapped, f->opts.context * token, f->opts.va_window);
	go_on(f, 0, TEXT);
	check_reference(f);
	close_session(f);
}

/* ---- refused calls ------------------------------------------------------- */

static void refused(int ret, int code, const struct err *e, const char *says)
{
	assert_int_equal(ret, code);
	if (!strstr(e->text, says))
		fail_msg("'%s' does not contain '%s'", e->text, says);
}

/* A refused call changes nothing, so the text can go on after it. */
static void test_refused_calls(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t id;

	open_session(f, f->model);
	refused(session_fork(f->s, 3, &id, &e), -EINVAL, &e,
		"sequence 3 cannot be forked: it is not open");
	refused(session_prefill(f->s, SESSION_TEXT, f->token, 0, NULL, &id, &e),
		-EINVAL, &e, "no tokens to prefill were given");
	refused(session_predict(f->s, &e), -EINVAL, &e, "a pass is missing");
	assert_ok(session_continue(f->s, SESSION_TEXT, f->token, 2, &e), &e);
	refused(session_predict(f->s, &e), -EINVAL, &e,
		"an output graph is missing");
	refused(session_accept(f->s, SESSION_TEXT, NULL, 3, &e), -EINVAL, &e,
		"3 rows were accepted, but of the 2 rows of the last pass only "
		"2 can be accepted");
	go_on(f, 0, TEXT);
	check_reference(f);
}

/* The weights outside the experts are in one buffer, which has at most
 * BUFFER_MAX bytes. */
static void test_too_many_dense_weights(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t bytes;

	open_session(f, f->model);
	bytes = f->s->block[0].bytes;
	f->s->block[0].bytes = BUFFER_MAX;
	refused(session_share_dense(f->s, &e), -EFBIG, &e,
		"the weights outside the experts take 1024 MiB, but a shared "
		"buffer holds at most 1024 MiB");
	assert_null(f->s->mix.dense.buffer);
	f->s->block[0].bytes = bytes;
}

/* The rows of a pass may attend to at most plan.span_room ranges of the
 * cache. */
static void test_too_many_spans(void **state)
{
	struct fixture *f = *state;
	struct row row[2];
	const struct rows rows = { VISIBILITY_TREE, 2, row };
	struct err e = { 0 };
	uint32_t other, room;

	f->opts.sequences = 2;
	open_session(f, f->model);
	assert_ok(session_add(f->s, &other, &e), &e);
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t id = i ? other : SESSION_TEXT;

		assert_ok(session_continue(f->s, id, f->token, 4, &e), &e);
		assert_ok(session_accept(f->s, id, NULL, 4, &e), &e);
		row[i] = (struct row){ f->token[4], 4, id, { .parent = -1 } };
	}
	room = f->s->plan.span_room;
	f->s->plan.span_room = 1;
	refused(session_forward(f->s, &rows, NULL, &e), -ENOSPC, &e,
		"2 rows of 2 sequences attend to more than 1 spans");
	f->s->plan.span_room = room;
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
}

/* The device's window has room for the output matrix, but not for weights, or
 * not even for the matrix. */
static void test_no_room_beside_the_output_matrix(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->opts.predict_top_k = 1;
	f->opts.va_slots = 3;
	open_session(f, f->model);
	refused(forward(f, 0, 1, &e), -ENOSPC, &e, "output matrix 0.0, one");
	assert_non_null(strstr(e.text, "is --va-slots 4: key-value cache"));
	close_session(f);
	/* The device has an extended region but refuses to place anything
	 * there. */
	f->opts.va_slots = 2;
	f->fake.va_extended = 1 << 30;
	refused(session_open(&f->s, f->model, &f->opts, &e), -EIO, &e,
		"cannot place tandem:output in its extended region: no room");
	f->s = NULL;
}

/* ---- a device that is lost ----------------------------------------------- */

/* Let the device be lost at different points of the text. A new device takes
 * over each time, and the results are the same. */
static void check_losses(struct fixture *f, const struct model *m)
{
	unsigned lost = 0;

	for (unsigned lives = 1; lives < 60; lives += 7) {
		struct err e = { 0 };

		memset(f->got, 0, sizeof(f->got));
		open_session(f, m);
		go_on(f, 0, CHUNK);
		f->fake.lives = lives;
		for (uint32_t at = CHUNK; at < TEXT;) {
			uint32_t n = TEXT - at < 3 ? TEXT - at : 3;
			int ret = forward(f, at, n, &e);

			if (!ret) {
				at += n;
				continue;
			}
			assert_int_equal(ret, -ERR_DEVICE_LOST);
			/* Every further pass fails in the same way until the
			 * session connects to another device. */
			assert_int_equal(forward(f, at, n, &e), ret);
			assert_ok(reattach(f->s, &e), &e);
			lost++;
		}
		check_reference(f);
		f->fake.lives = 0;
		close_session(f);
	}
	assert_true(lost >= 5);
}

static void test_lost(void **state)
{
	struct fixture *f = *state;

	check_losses(f, f->model);
}

/* The device is lost while blocks are swapped. */
static void test_lost_in_a_small_window(void **state)
{
	struct fixture *f = *state;

	f->opts.va_slots = 4;
	check_losses(f, f->model);
}

/* The device is lost while layers are read from flash into slots. */
static void test_lost_while_streaming(void **state)
{
	struct fixture *f = *state;

	open_image(f);
	f->opts.dram_share = .2;
	check_losses(f, f->image.model);
}

static void count_notice(void *arg, const char *sentence)
{
	assert_non_null(strstr(sentence, "the fake device is lost; another"));
	++*(unsigned *)arg;
}

/* If the session replaces the device itself (opts.restarts), the caller sees no
 * loss. */
static void check_replaced(struct fixture *f, const struct model *m)
{
	unsigned notices = 0, reached = 0;

	f->opts.restarts = SESSION_RESTARTS_MAX;
	f->opts.notice = (struct notice_sink){ count_notice, &notices };
	for (unsigned lives = 1; lives < 40; lives += 3) {
		struct session_stats st;

		f->fake.reached = 0;
		f->fake.lives = lives;
		open_session(f, m);
		go_on(f, 0, CHUNK);
		f->fake.lives = lives;
		go_on(f, CHUNK, TEXT);
		check_reference(f);
		session_stats(f->s, &st);
		assert_int_equal(st.restarts, f->fake.reached - 1);
		reached += f->fake.reached - 1;
		f->fake.lives = 0;
		close_session(f);
	}
	assert_int_equal(notices, reached);
	assert_true(reached >= 10);
}

static void test_replaced(void **state)
{
	struct fixture *f = *state;

	check_replaced(f, f->model);
	f->opts.va_slots = 4;
	check_replaced(f, f->model);
	f->opts.va_slots = session_defaults.va_slots;
	open_image(f);
	f->opts.dram_share = .2;
	check_replaced(f, f->image.model);
}

/* Two sessions share one device. Whichever session finds the loss, both can
 * continue. */
static void test_replaced_beside(void **state)
{
	struct fixture *f = *state;
	struct session *first, *second;

	f->opts.restarts = SESSION_RESTARTS_MAX;
	open_session(f, f->model);
	first = f->s;
	f->opts.beside = first;
	open_session(f, f->model);
	second = f->s;
	for (unsigned lives = 1; lives < 30; lives++) {
		f->fake.lives = lives;
		for (uint32_t at = 0, to; at < TEXT; at = to) {
			to = TEXT - at < 4 ? TEXT : at + 4;
			f->s = lives % 2 ? first : second;
			go_on(f, at, to);
			f->s = lives % 2 ? second : first;
			go_on(f, at, to);
		}
		check_reference(f);
		session_truncate(first, SESSION_TEXT, 0);
		session_truncate(second, SESSION_TEXT, 0);
	}
	assert_true(f->fake.reached > 15);
	f->fake.lives = 0;
	f->s = second;
	close_session(f);
	f->s = first;
}

/* The device is lost more often than opts.restarts allows. */
static void test_replaced_too_often(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->opts.restarts = 2;
	open_session(f, f->model);
	for (unsigned i = 0; i < 2; i++) {
		f->fake.lives = 1;
		go_on(f, i, i + 1);
	}
	f->fake.lives = 1;
	assert_int_equal(forward(f, 2, 1, &e), -ERR_DEVICE_LOST);
	assert_string_equal(e.text,
		"the fake device is lost; --restarts allows no more than 2 "
		"losses within 60 s");
	assert_int_equal(f->fake.reached, 3);
}

struct replacing {
	struct fixture *f;
	unsigned calls;
};

/* Called after each block: replace the device after the second block. */
static int replace(void *arg, struct err *e)
{
	struct replacing *r = arg;

	return ++r->calls == 2 ? reattach(r->f->s, e) : 0;
}

/* If the device is replaced in the middle of a pass by other work of the host,
 * the pass is computed again. */
static void test_replaced_by_a_hook(void **state)
{
	struct fixture *f = *state;
	struct replacing r = { .f = f };
	const struct session_hooks hooks = { .meanwhile = replace, .arg = &r };
	struct row row[3];
	const struct rows rows = { VISIBILITY_TREE, 3, row };
	struct err e = { 0 };

	open_session(f, f->model);
	rows_tree(row, SESSION_TEXT, 0, f->token, NULL, 3);
	assert_ok(session_forward(f->s, &rows, &hooks, &e), &e);
	assert_int_equal(f->fake.reached, 2);
	assert_int_equal(r.calls, 2 + LAYERS);
	assert_ok(session_logits(f->s, 0, 3, f->got[0], &e), &e);
	assert_ok(session_accept(f->s, SESSION_TEXT, NULL, 3, &e), &e);
	go_on(f, 3, TEXT);
	check_reference(f);
}

static void answer_another_request(
	struct fake *f, const void *request, struct fake_answer *a)
{
	const struct wire_simple *r = request;

	if (r->op == WIRE_GRAPH_RUN)
		a->seq += 1000;
}

/* A device that breaks the protocol counts as lost. If it does so more often
 * than opts.restarts allows, the error is that of a lost device and not of a
 * failed call. */
static void test_liars_are_lost(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	for (unsigned restarts = 0; restarts < 3; restarts++) {
		f->fake.forge = NULL;
		f->opts.restarts = restarts;
		open_session(f, f->model);
		f->fake.reached = 1;
		f->fake.forge = answer_another_request;
		assert_int_equal(forward(f, 0, 1, &e), -ERR_DEVICE_LOST);
		assert_int_equal(e.code, -ERR_DEVICE_LOST);
		assert_non_null(strstr(e.text, "which is not in flight"));
		assert_int_equal(f->fake.reached, 1 + restarts);
		f->fake.forge = NULL;
		close_session(f);
	}
	open_session(f, f->model);
}

/* A session does not recover on a new device that has less memory, or that is
 * lost while the session connects to it. It recovers on the next good device.
 */
static void test_lost_for_good(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	open_session(f, f->model);
	go_on(f, 0, CHUNK);
	f->fake.tcm_share = 1 << 20;
	assert_int_equal(reattach(f->s, &e), -EPROTO);
	assert_non_null(strstr(e.text, "(weights of 32 outputs) of 1024 KiB"));
	assert_int_equal(forward(f, CHUNK, 1, &e), -ERR_DEVICE_LOST);
	f->fake.tcm_share = 8 << 20;
	f->fake.lives = 1;
	assert_int_equal(reattach(f->s, &e), -ERR_DEVICE_LOST);
	assert_int_equal(forward(f, CHUNK, 1, &e), -ERR_DEVICE_LOST);
	assert_ok(reattach(f->s, &e), &e);
	go_on(f, CHUNK, TEXT);
	check_reference(f);
}

/* ---- invalid results and answers ----------------------------------------- */

static float poison;
static uint32_t poisoned_row, poisoned_runs;

static void spoil(struct fake *f, float *hidden, uint32_t rows, uint32_t n)
{
	if (!poisoned_runs || --poisoned_runs)
		return;
	hidden[poisoned_row % rows * n + 5] = poison;
}

/* The test makes values of the hidden states after the last block invalid.
 * Invalid values of earlier blocks would reach the last block too. */
static void test_states_that_are_no_numbers(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	struct fixture *f = *state;
	float logits[VOCAB];

	f->fake.spoil = spoil;
	open_session(f, f->model);
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned block = 1; block <= LAYERS; block += LAYERS - 1) {
			struct err e = { 0 };

			poison = bad[i];
			poisoned_row = 2;
			poisoned_runs = block;
			assert_ok(session_continue(
					  f->s, SESSION_TEXT, f->token, 4, &e),
				&e);
			assert_int_equal(session_logits(f->s, 2, 1, logits, &e),
				-EPROTO);
			assert_non_null(strstr(e.text, "finite: row 2"));
			assert_int_equal(
				session_logits(f->s, 0, 4, f->got[0], &e),
				-EPROTO);
			/* A row before the invalid one does not depend on
			 * it. */
			assert_ok(session_logits(f->s, 1, 1, logits, &e), &e);
		}
	}
	go_on(f, 0, TEXT);
	check_reference(f);
}

static int keep_all(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	fail_msg("choose was called with invalid states");
	return 0;
}

/* If the hidden states at the exit layer (after which rows may be dropped) are
 * invalid, the callback choose is not called. */
static void test_states_at_the_exit(void **state)
{
	struct fixture *f = *state;
	const struct session_hooks hooks = { .choose = keep_all };
	struct rows rows = { VISIBILITY_TREE, 4, NULL };
	struct row row[4];
	struct err e = { 0 };

	f->opts.exit_layers = 3;
	f->fake.spoil = spoil;
	open_session(f, f->model);
	rows_tree(row, SESSION_TEXT, 0, f->token, NULL, 4);
	rows.row = row;
	poison = NAN;
	poisoned_row = 3;
	poisoned_runs = 3;
	assert_int_equal(session_forward(f->s, &rows, &hooks, &e), -EPROTO);
	assert_non_null(strstr(e.text, "finite: row 3"));
	go_on(f, 0, TEXT);
	check_reference(f);
}

static struct wire_likely forged;

/* Predict `forged` for a row of a pass: the fake device cannot run an output
 * graph itself. */
static void predicts(struct fake *f, const void *request, struct fake_answer *a)
{
	const struct wire_graph_run *run = request;
	struct session *s = f->arg;
	uint8_t *to;

	if (run->op != WIRE_GRAPH_RUN ||
		run->graph < s->first_graph + s->n_blocks * MAX_GRAPHS)
		return;
	to = buffer_begin(
		s->io.buffer, s->plan.likely_off, sizeof(forged), BUFFER_WRITE);
	memcpy(to, &forged, sizeof(forged));
	buffer_end(
		s->io.buffer, s->plan.likely_off, sizeof(forged), BUFFER_WRITE);
	a->done.status = 0;
	a->done.text[0] = '\0';
}

/* A predicted token must be in the vocabulary, and its probability must not
 * exceed 1. */
static void test_forged_predictions(void **state)
{
	static const struct {
		struct wire_likely likely;
		const char *says; /* NULL: a valid prediction */
	} cases[] = {
		{ { .token = VOCAB, .probability = .5f },
			"predicted token 96 of 96 with probability 0.5" },
		{ { .token = 7, .probability = 1.25f },
			"predicted token 7 of 96 with probability 1.25" },
		{ { .token = 7, .probability = .5f }, NULL },
	};
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t n;

	f->opts.predict_top_k = 1;
	open_session(f, f->model);
	f->fake.arg = f->s;
	f->fake.forge = predicts;
	assert_ok(session_continue(f->s, SESSION_TEXT, f->token, 1, &e), &e);
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		forged = cases[i].likely;
		if (cases[i].says)
			refused(session_predict(f->s, &e), -EPROTO, &e,
				cases[i].says);
		else
			assert_ok(session_predict(f->s, &e), &e);
	}
	assert_int_equal(session_predicted(f->s, 0, &n)->token, 7);
	assert_int_equal(n, 1);
}

static unsigned forged_at;

static void refuses_run(
	struct fake *f, const void *request, struct fake_answer *a)
{
	if (f->answered == forged_at)
		fake_refuse(&a->done, -EFAULT, "run.graph is 999");
}

static void answers_nothing(
	struct fake *f, const void *request, struct fake_answer *a)
{
	a->times = f->answered != forged_at;
}

static void answers_another(
	struct fake *f, const void *request, struct fake_answer *a)
{
	if (f->answered == forged_at)
		a->done.op = WIRE_NOP;
}

/* A forged answer to any request, during the open or in a pass, is an error,
 * and the session computes no more text. */
static void test_forged_at_any_request(void **state)
{
	static const struct {
		void (*forge)(
			struct fake *, const void *, struct fake_answer *);
		/* the error message must contain one of these strings */
		const char *says[2];
	} cases[] = {
		{ refuses_run, { "run.graph is 999", "run.graph is 999" } },
		{ answers_nothing, { "the fake device", "the fake device" } },
		{ answers_another,
			{ "to operation 1 (nop)", "which is not in flight" } },
	};
	struct fixture *f = *state;

	for (unsigned c = 0; c < ARRAY_LEN(cases); c++) {
		for (forged_at = 1;; forged_at++) {
			struct err e = { 0 };
			int ret;

			f->fake.answered = 0;
			f->fake.forge = cases[c].forge;
			ret = session_open(&f->s, f->model, &f->opts, &e);
			for (uint32_t i = 0; i < 6 && !ret; i++)
				ret = forward(f, i, 1, &e);
			if (!ret)
				break;
			if (!strstr(e.text, cases[c].says[0]) &&
				!strstr(e.text, cases[c].says[1]))
				fail_msg("request %u: '%s'", forged_at, e.text);
			session_close(f->s, NULL);
			f->s = NULL;
		}
		/* At least the answers to maps, to loads of graphs and to the
		 * runs of six passes were forged, one after another. */
		assert_true(forged_at > 2 + LAYERS + 2 * LAYERS + 6 * LAYERS);
		session_close(f->s, NULL);
		f->s = NULL;
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_is_the_definition),
	TEST(test_few_slots),
	TEST(test_streamed),
	TEST(test_reads_on_while_the_host_works),
	TEST(test_second_model),
	TEST(test_cache_of_several_buffers),
	TEST(test_refused_calls),
	TEST(test_too_many_dense_weights),
	TEST(test_too_many_spans),
	TEST(test_no_room_beside_the_output_matrix),
	TEST(test_lost),
	TEST(test_lost_in_a_small_window),
	TEST(test_lost_while_streaming),
	TEST(test_lost_for_good),
	TEST(test_replaced),
	TEST(test_replaced_beside),
	TEST(test_replaced_too_often),
	TEST(test_replaced_by_a_hook),
	TEST(test_liars_are_lost),
	TEST(test_states_that_are_no_numbers),
	TEST(test_states_at_the_exit),
	TEST(test_forged_predictions),
	TEST(test_forged_at_any_request),
};

TEST_FILE(tests)
