/*
 * Sessions on a real device process ($TANDEM_NPU; skipped if unset). Cache,
 * logits and placement of weights are correct for any division into passes.
 * Other tests check how a session ends.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* ---- the cache ----------------------------------------------------- */

static void test_truncate(void **state)
{
	struct fixture *f = *state;
	size_t width = f->file.n_embd * sizeof(float);
	float first[512];
	int32_t t[30];

	open_session(f);
	tokens(f, 7, t, 30);
	prefill(f, t, 30);
	session_truncate(f->s, SESSION_TEXT, 12);
	assert_int_equal(session_length(f->s, SESSION_TEXT), 12);
	forward(f, t + 20, NULL, 3);
	memcpy(first, session_hidden(f->s, 2), width);
	session_truncate(f->s, SESSION_TEXT, 0);
	prefill(f, t, 12);
	forward(f, t + 20, NULL, 3);
	same_bytes(session_hidden(f->s, 2), first, width, "row", 2);
	/* a length beyond the text changes nothing */
	session_truncate(f->s, SESSION_TEXT, 400);
	assert_int_equal(session_length(f->s, SESSION_TEXT), 12);
	pair_close(&f->s);
}

static void test_full_context(void **state)
{
	struct fixture *f = *state;
	const int32_t one = 3;
	struct err e = { 0 };
	int32_t t[20];
	uint32_t last;

	f->opts.context = 19;
	open_session(f);
	assert_int_equal(session_context(f->s), 19);
	tokens(f, 8, t, 20);
	assert_int_equal(
		session_prefill(f->s, SESSION_TEXT, t, 20, NULL, &last, &e),
		-ENOSPC);
	assert_non_null(strstr(e.text, "--ctx"));
	session_truncate(f->s, SESSION_TEXT, 0);
	prefill(f, t, 19);
	assert_int_equal(
		session_continue(f->s, SESSION_TEXT, &one, 1, &e), -ENOSPC);
	assert_int_equal(session_length(f->s, SESSION_TEXT), 19);
	pair_close(&f->s);
}

/* A graph (a pass that is compiled for a number of rows) has at most as many
 * rows as a batch may have. */
static void test_rows_of_a_graph(void **state)
{
	static const struct {
		uint32_t context, decode_rows, max_rows;
	} want[] = { { 40, 1024, 40 }, { 40, 30, 30 }, { 10, 1024, 16 },
		{ 0, 1024, 256 } };
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		f->opts.context = want[i].context;
		f->opts.decode_rows = want[i].decode_rows;
		open_session(f);
		assert_int_equal(session_max_rows(f->s), want[i].max_rows);
		pair_close(&f->s);
	}
}

static void test_context_of_a_model(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	open_session(f);
	assert_int_equal(session_context(f->s), 256);
	pair_close(&f->s);
	f->opts.context_need = 30;
	open_session(f);
	assert_int_equal(session_context(f->s), 30);
	pair_close(&f->s);
	f->opts.context = 1u << 26;
	f->opts.precision = WIRE_F16;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EFBIG);
	assert_non_null(strstr(e.text, "try --ctx"));
	assert_non_null(strstr(e.text, "--precision f16-kv16"));
	/* with int8, keys and values are already fp16, so the error does not
	 * suggest fp16 */
	f->opts.precision = WIRE_INT8;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EFBIG);
	assert_null(strstr(e.text, "--precision"));
	f->s = NULL;
}

/* ---- logits -------------------------------------------------------- */

/* The logits of several rows may be computed together although the caller uses
 * only some of them. */
static void test_logits_ahead(void **state)
{
	static const uint32_t together[] = { 0, 5, 2, 1, 7 },
			      used[] = { 0, 1, 7 };
	struct fixture *f = *state;
	float all[8][96], one[96], *out[ARRAY_LEN(together)];
	struct session_stats st, one_by_one;
	struct err e = { 0 };
	int32_t t[8];

	open_session(f);
	tokens(f, 10, t, 8);
	forward(f, t, NULL, 8);
	for (unsigned i = 0; i < ARRAY_LEN(used); i++)
		assert_ok(session_logits(f->s, used[i], 1, one, &e), &e);
	session_stats(f->s, &one_by_one);
	session_hash_anew(f->s);
	for (unsigned i = 0; i < ARRAY_LEN(together); i++)
		out[i] = all[together[i]];
	assert_ok(session_logits_ahead(
			  f->s, together, ARRAY_LEN(together), out, &e),
		&e);
	session_stats(f->s, &st);
	assert_int_equal(st.logits_rows, one_by_one.logits_rows);
	for (unsigned i = 0; i < ARRAY_LEN(used); i++)
		session_logits_used(f->s, all[used[i]]);
	session_stats(f->s, &st);
	assert_int_equal(st.logits_hash, one_by_one.logits_hash);
	assert_int_equal(st.logits_rows, 2 * ARRAY_LEN(used));
	assert_int_equal(
		st.logits_computed, ARRAY_LEN(used) + ARRAY_LEN(together));
	assert_true(st.logits_ns > one_by_one.logits_ns);
	for (unsigned i = 0; i < ARRAY_LEN(together); i++) {
		assert_ok(session_logits(f->s, together[i], 1, one, &e), &e);
		same_bytes(one, all[together[i]], sizeof(one), "logits of row",
			together[i]);
	}
}

static void test_logits_on_demand(void **state)
{
	struct fixture *f = *state;
	float all[8][96], one[96];
	struct session_stats st;
	struct err e = { 0 };
	uint64_t hash;
	int32_t t[8];

	open_session(f);
	tokens(f, 10, t, 8);
	forward(f, t, NULL, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_ok(session_logits(f->s, i, 1, all[i], &e), &e);
	session_stats(f->s, &st);
	assert_int_equal(st.logits_rows, 8);
	hash = st.logits_hash;
	for (uint32_t i = 8; i-- > 0;) {
		assert_ok(session_logits(f->s, i, 1, one, &e), &e);
		same_bytes(one, all[i], sizeof(one), "logits of row", i);
	}
	session_stats(f->s, &st);
	assert_int_equal(st.logits_rows, 16);
	assert_int_not_equal(st.logits_hash, hash);
	assert_int_equal(session_logits(f->s, 8, 1, one, &e), -EINVAL);
	pair_close(&f->s);

	/* The hash depends only on the rows, so the same rows give the same
	 * hash. */
	open_session(f);
	forward(f, t, NULL, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_ok(session_logits(f->s, i, 1, one, &e), &e);
	session_stats(f->s, &st);
	assert_int_equal(st.logits_hash, hash);
	pair_close(&f->s);
}

/* ---- placement ----------------------------------------------------- */

/* Hash of the logits of a fixed sequence of passes. */
static uint64_t run_hash(struct fixture *f, struct session_stats *st)
{
	float *row = malloc(f->file.n_vocab * sizeof(*row));
	struct err e = { 0 };
	int32_t t[24];

	open_session(f);
	tokens(f, 11, t, 24);
	assert_ok(session_logits(f->s, prefill(f, t, 20), 1, row, &e), &e);
	for (int i = 20; i < 24; i++) {
		prefill(f, t + i, 1);
		assert_ok(session_logits(f->s, 0, 1, row, &e), &e);
	}
	session_stats(f->s, st);
	pair_close(&f->s);
	free(row);
	return st->logits_hash;
}

static void test_few_slots(void **state)
{
	struct fixture *f = *state;
	struct session_stats wide, narrow;
	uint64_t want;

	f->file.n_layer = 6;
	want = run_hash(f, &wide);
	assert_int_equal(wide.blocks, 6);
	assert_int_equal(wide.maps, 8);
	assert_int_equal(wide.unmaps, 0);
	f->opts.va_slots = 5; /* room for three of the six blocks */
	assert_int_equal(run_hash(f, &narrow), want);
	/* The session maps 2 buffers and 3 blocks at the start. With room for 3
	 * of the 6 blocks, each pass then maps 3 or 4 blocks again. */
	assert_in_range(narrow.maps, 2 + 3 + 6 * 3, 2 + 3 + 6 * 4);
	f->opts.va_slots = 3;
	assert_int_equal(run_hash(f, &narrow), want);
	assert_int_equal(narrow.maps, 2 + 6 * 6);
}

/* The model has more than 32 MiB of weights, and the device's window has 16
 * MiB. */
static void test_small_window(void **state)
{
	struct fixture *f = *state;
	struct session_stats wide, narrow;
	uint64_t want;

	f->file.n_embd = 512;
	f->file.n_head = 8;
	f->file.head_dim = 64;
	f->file.n_ff = 1536;
	f->file.type = DTYPE_F16;
	f->file.n_layer = 6;
	f->opts.context = 64;
	want = run_hash(f, &wide);
	assert_int_equal(wide.blocks, 6);
	assert_true(wide.weight_bytes > 32 << 20);
	f->opts.va_window = 16 << 20;
	assert_int_equal(run_hash(f, &narrow), want);
	assert_true(narrow.bytes_mapped <= 16 << 20);
	assert_true(narrow.unmaps > 0);
}

static void test_block_larger_than_the_window(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->file.n_layer = 1;
	f->file.n_embd = 1024;
	f->file.n_head = 16;
	f->file.head_dim = 64;
	f->file.n_ff = 4096;
	f->file.type = DTYPE_F16; /* 14.25 Mi weights of 2 bytes: 28.5 MiB */
	f->opts.va_window = 16 << 20;
	f->opts.context = 64;
	pair_need();
	f->model = model_file_open(&f->file);
	if (!session_open(&f->s, f->model, &f->opts, &e)) {
		const int32_t t = 1;

		assert_true(
			session_continue(f->s, SESSION_TEXT, &t, 1, &e) < 0);
	}
	assert_non_null(strstr(e.text, "tandem:weights0"));
	assert_non_null(strstr(e.text, "16.0 MiB"));
	assert_non_null(strstr(e.text, "--va-window"));
}

/* ---- the end of a session ------------------------------------------------ */

static void test_cancel(void **state)
{
	struct fixture *f = *state;
	static volatile sig_atomic_t cancel;
	const int32_t t = 1;
	struct err e = { 0 };

	f->opts.cancel = &cancel;
	open_session(f);
	forward(f, &t, NULL, 1);
	cancel = 1;
	assert_int_equal(
		session_continue(f->s, SESSION_TEXT, &t, 1, &e), -ECANCELED);
	cancel = 0;
	pair_close(&f->s);
}

/* The only child of this process. */
static pid_t child_pid(void)
{
	char path[64], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		skip();
	fclose(f);
	return (int)strtol(text, NULL, 10);
}

static void test_device_killed(void **state)
{
	struct fixture *f = *state;
	const int32_t t = 1;
	struct err e = { 0 };
	uint64_t began;
	pid_t pid;

	open_session(f);
	forward(f, &t, NULL, 1);
	pid = child_pid();
	kill(pid, SIGKILL);
	began = clock_ns();
	assert_int_equal(session_continue(f->s, SESSION_TEXT, &t, 1, &e),
		-ERR_DEVICE_LOST);
	assert_in_range((clock_ns() - began) / 1000000, 0, 10000);
	assert_non_null(strstr(e.text, "killed by signal 9"));
	session_close(f->s, NULL);
	f->s = NULL;
	assert_int_equal(kill(pid, 0), -1); /* the child was reaped */
}

static void test_no_such_device(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	f->opts.device = "/nonexistent/socket";
	assert_true(session_open(&f->s, f->model, &f->opts, &e) < 0);
	assert_non_null(strstr(e.text, "/nonexistent/socket"));
	f->opts.device = NULL;
	setenv("TANDEM_NPU", "/nonexistent/npu", 1);
	assert_true(session_open(&f->s, f->model, &f->opts, &e) < 0);
	assert_non_null(strstr(e.text, "/nonexistent/npu"));
	f->s = NULL;
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_truncate),
	TEST(test_full_context),
	TEST(test_rows_of_a_graph),
	TEST(test_context_of_a_model),
	TEST(test_logits_on_demand),
	TEST(test_logits_ahead),
	TEST(test_few_slots),
	TEST(test_small_window),
	TEST(test_block_larger_than_the_window),
	TEST(test_cancel),
	TEST(test_device_killed),
	TEST(test_no_such_device),
};

TEST_FILE(tests)
