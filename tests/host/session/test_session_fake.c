/*
 * Sessions on a fake device (faked_session.h). Results equal those of a
 * reference transformer, for every size of the device's address window, and
 * with layers in memory or read from flash. Invalid results and answers of a
 * device are errors whose message names the invalid part.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/model/shapes.h"
#include "host/session/session_impl.h"
#include "shm/buffer.h"
#include "tests/host/session/faked_session.h"

#include <errno.h>
#include <math.h>
#include <time.h>

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
	TEST(test_states_that_are_no_numbers),
	TEST(test_states_at_the_exit),
	TEST(test_forged_predictions),
	TEST(test_forged_at_any_request),
};

TEST_FILE(tests)
