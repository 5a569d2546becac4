/*
 * The host's hold on a device, against a fake one: what is under way and what
 * is kept of it, and what becomes of it when the device is lost.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/npu/npu.h"
#include "host/npu/npu_impl.h"
#include "host/npu/npu_log.h"
#include "shm/buffer.h"
#include "shm/coherence.h"
#include "tests/harness.h"
#include "tests/host/npu/fake_device.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY (64u << 10)
#define WIDTH  8
#define ROWS   4
#define RUNS   40

/* A session in small: one layer of weights, a cache, states; all in one
 * buffer. */
struct fixture {
	struct fake fake;
	struct npu_opts opts;
	struct npu *n;
	struct buffer *memory;
	uint8_t *bytes;
	uint32_t id, addr;
	unsigned told; /* completions */
	uint32_t last; /* number of the last one */
};

enum { WEIGHTS = 0, KV = 16 << 10, HIDDEN = 32 << 10, BATCH = 48 << 10 };

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	fake_init(&f->fake);
	f->opts = (struct npu_opts){ .ops = &f->fake.ops,
		.hello = { .va_window = 1 << 20, .va_slots = 4 } };
	assert_ok(buffer_create(&f->memory, "memory", MEMORY, 0, &e), &e);
	f->bytes = buffer_begin(f->memory, 0, MEMORY, BUFFER_WRITE);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	npu_close(f->n);
	buffer_close(f->memory);
	free(f);
	return 0;
}

static void told(
	void *arg, uint32_t seq, const struct price *p, uint64_t busy_ns)
{
	struct fixture *f = arg;

	f->told++;
	f->last = seq;
}

static void open_npu(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(npu_open(&f->n, &f->opts, &e), &e);
	npu_watch(f->n, told, f);
}

static uint32_t put_tensor(
	struct wire_tensor *t, uint32_t rows, uint32_t cols, uint32_t at)
{
	*t = (struct wire_tensor){ DTYPE_F32, rows, cols, at };
	return at + rows * cols * 4;
}

struct graph_message {
	struct wire_graph_load load;
	struct wire_tensor tensor[WIRE_T_COUNT];
};

/* A graph of one layer. */
static struct graph_message graph_message(uint32_t id)
{
	static const uint32_t shape[WIRE_T_COUNT][2] = {
		[WIRE_T_ATTN_NORM] = { 1, WIDTH },
		[WIRE_T_Q] = { WIDTH, WIDTH },
		[WIRE_T_K] = { WIDTH, WIDTH },
		[WIRE_T_V] = { WIDTH, WIDTH },
		[WIRE_T_O] = { WIDTH, WIDTH },
		[WIRE_T_FFN_NORM] = { 1, WIDTH },
		[WIRE_T_GATE] = { WIDTH, WIDTH },
		[WIRE_T_UP] = { WIDTH, WIDTH },
		[WIRE_T_DOWN] = { WIDTH, WIDTH },
	};
	struct graph_message g = { .load = {
					   .op = WIRE_GRAPH_LOAD,
					   .graph = id,
					   .rows = ROWS,
					   .n_layers = 1,
					   .weights_bytes = KV,
					   .model = { .n_embd = WIDTH,
						   .n_head = 1,
						   .n_kv_head = 1,
						   .head_dim = WIDTH,
						   .n_rot = WIDTH,
						   .n_ff = WIDTH,
						   .norm_eps = 1e-5f,
						   .attn_scale = .3f,
						   .kv_slots = 64,
						   .kv_stride = 64 },
				   } };
	uint32_t at = put_tensor(&g.load.rope_freq, 1, WIDTH / 2, 0);

	for (unsigned i = 0; i < WIRE_T_COUNT; i++)
		if (shape[i][0])
			at = put_tensor(
				&g.tensor[i], shape[i][0], shape[i][1], at);
	return g;
}

/* Memory and a graph, for the device at hand. */
static void attach(struct fixture *f)
{
	const struct graph_message g = graph_message(3);
	struct wire_done done;
	struct err e = { 0 };

	assert_ok(npu_share(f->n, f->memory, &f->id, &e), &e);
	assert_ok(npu_map(f->n, f->id, &f->addr, &e), &e);
	assert_ok(npu_call(f->n, &g, sizeof(g), &done, &e), &e);
	assert_int_equal(done.status, 0);
}

static void fill(struct fixture *f)
{
	float *w = (void *)(f->bytes + WEIGHTS),
	      *x = (void *)(f->bytes + HIDDEN);

	memset(f->bytes, 0, MEMORY);
	for (uint32_t i = 0; i < (uint32_t)KV / 4; i++)
		w[i] = (float)(rng_uniform(7, 1, i) - .5);
	for (uint32_t i = 0; i < ROWS * WIDTH; i++)
		x[i] = (float)rng_uniform(7, 2, i);
}

/* Rows [0, ROWS) behind `past` slots, a chain; states in place. The batch of
 * run i lies at a place of its own, as the device reads it later. */
static int send_run(struct fixture *f, uint32_t i, struct err *e)
{
	uint32_t batch = (uint32_t)BATCH + i * 256;
	struct wire_graph_run run = { WIRE_GRAPH_RUN, 3, ROWS, 1, 1, 0 };
	const struct wire_ref refs[] = {
		{ f->addr + WEIGHTS, KV, WIRE_REF_WEIGHTS, 0, 0, 0 },
		{ f->addr + KV, 16 << 10, WIRE_REF_KV, 0, 0, 0 },
		{ f->addr + HIDDEN, ROWS * WIDTH * 4, WIRE_REF_HIDDEN_IN, 0, 0,
			0 },
		{ f->addr + HIDDEN, ROWS * WIDTH * 4, WIRE_REF_HIDDEN_OUT, 0, 0,
			0 },
		{ f->addr + batch, 256, WIRE_REF_ROWS, 0, 0, 0 },
	};
	struct wire_row *row = (void *)(f->bytes + batch);
	struct wire_span *span = (void *)(row + ROWS);
	uint64_t *mask = (void *)(span + 1);

	for (uint32_t r = 0; r < ROWS; r++) {
		row[r] = (struct wire_row){ i + r, i + r, 0, i ? 1 : 0 };
		mask[r] = (2u << r) - 1;
	}
	*span = (struct wire_span){ 0, i };
	return npu_send(f->n, refs, 5, &run, sizeof(run), NULL, e);
}

/* All the runs, whatever becomes of the device on the way. */
static void send_runs(struct fixture *f, unsigned *lost)
{
	struct err e = { 0 };

	for (uint32_t i = 0; i < RUNS;) {
		int ret = send_run(f, i, &e);

		if (!ret) {
			i++;
			continue;
		}
		assert_int_equal(ret, -ERR_DEVICE_LOST);
		assert_non_null(strstr(e.text, "the fake device is lost"));
		++*lost;
		assert_ok(npu_reopen(f->n, &e), &e);
		attach(f);
		assert_ok(npu_replay(f->n, &e), &e);
	}
}

/* Until all is answered, through losses as well. */
static void drain_through(struct fixture *f, unsigned *lost)
{
	struct err e = { 0 };

	while (npu_drain(f->n, &e)) {
		assert_int_equal(e.code, -ERR_DEVICE_LOST);
		++*lost;
		assert_ok(npu_reopen(f->n, &e), &e);
		attach(f);
		assert_ok(npu_replay(f->n, &e), &e);
	}
}

/*
 * Wherever a device is lost, the next one is sent what it had not answered, and
 * the memory is what it would have been: each run reads what the one before it
 * wrote.
 */
static void test_replay(void **state)
{
	struct fixture *f = *state;
	unsigned lost = 0, none = 0;
	uint8_t *want = malloc(MEMORY);
	uint32_t last;

	open_npu(f);
	fill(f);
	attach(f);
	send_runs(f, &none);
	drain_through(f, &none);
	assert_int_equal(none, 0);
	assert_int_equal(f->fake.reached, 1);
	assert_int_equal(f->fake.most_under_way, NPU_UNDER_WAY);
	assert_int_equal(f->told, 2 + RUNS);
	last = f->last;
	memcpy(want, f->bytes, MEMORY);
	npu_close(f->n);
	for (unsigned k = 1; k < RUNS; k++) {
		unsigned before = lost;

		open_npu(f);
		fill(f);
		attach(f);
		f->fake.lives = k;
		f->told = 0;
		send_runs(f, &lost);
		drain_through(f, &lost);
		assert_int_equal(lost - before, 1);
		assert_memory_equal(f->bytes, want, MEMORY);
		/* Each once, and attaching. */
		assert_int_equal(f->told, RUNS + 2);
		assert_true(f->last == last || f->last == last + 2);
		npu_close(f->n);
	}
	f->n = NULL;
	free(want);
}

/* The answer that came before the loss is not sent again. */
static void test_forget(void **state)
{
	struct fixture *f = *state;
	unsigned answered;
	struct err e = { 0 };

	open_npu(f);
	fill(f);
	attach(f);
	for (uint32_t i = 0; i < 5; i++)
		assert_ok(send_run(f, i, &e), &e);
	assert_ok(npu_reopen(f->n, &e), &e);
	attach(f);
	answered = f->fake.answered;
	npu_forget(f->n);
	assert_ok(npu_replay(f->n, &e), &e);
	assert_ok(npu_drain(f->n, &e), &e);
	assert_int_equal(f->fake.answered, answered);
}

static int cannot_open(void *arg, const struct npu_opts *o, void **device,
	struct wire_welcome *w, struct err *e)
{
	return err_set(e, ENOENT, "no device far and wide");
}

/* Without another device every call says so. */
static void test_none_to_reach(void **state)
{
	struct fixture *f = *state;
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct wire_done done;
	struct npu_stats st;
	struct err e = { 0 };
	uint32_t id;

	open_npu(f);
	attach(f);
	f->fake.ops.open = cannot_open;
	assert_int_equal(npu_reopen(f->n, &e), -ENOENT);
	memset(&e, 0, sizeof(e));
	assert_int_equal(npu_share(f->n, f->memory, &id, &e), -ENOENT);
	assert_int_equal(npu_call(f->n, &nop, sizeof(nop), &done, &e), -ENOENT);
	assert_int_equal(npu_drain(f->n, &e), -ENOENT);
	assert_string_equal(e.text, "no device far and wide");
	npu_stats(f->n, &st);
	assert_int_equal(st.round_trips, 2);
	f->fake.ops.open = fake_open;
	assert_ok(npu_reopen(f->n, &e), &e);
	attach(f);
}

/* ---- loads beside -------------------------------------------------------- */

static bool is_answered(struct fixture *f, uint32_t seq)
{
	unsigned before = f->told;
	struct err e = { 0 };

	assert_ok(npu_wait(f->n, seq, &e), &e);
	return f->told == before;
}

/* A load that is answered late holds up nobody who waits for something else. */
static void test_wait(void **state)
{
	const struct graph_message g = graph_message(4);
	const struct wire_simple drop = { WIRE_GRAPH_DROP, 3 };
	struct fixture *f = *state;
	uint32_t load, dropped, run;
	struct npu_stats st;
	struct err e = { 0 };

	open_npu(f);
	attach(f);
	f->fake.late = 9;
	assert_ok(npu_send(f->n, NULL, 0, &g, sizeof(g), &load, &e), &e);
	assert_ok(
		npu_send(f->n, NULL, 0, &drop, sizeof(drop), &dropped, &e), &e);
	assert_false(is_answered(f, dropped));
	assert_int_equal(f->last, dropped);
	assert_true(is_answered(f, dropped));
	npu_stats(f->n, &st);
	assert_int_equal(st.graphs, 1);
	assert_int_equal(st.most_graphs, 2);
	assert_false(is_answered(f, load));
	assert_int_equal(f->last, load);
	/* What is lost is not under way: nobody waits for it. */
	assert_ok(send_run(f, 0, &e), &e);
	run = load + 2;
	assert_ok(npu_reopen(f->n, &e), &e);
	assert_true(is_answered(f, run));
	npu_forget(f->n);
}

/* ---- the log ------------------------------------------------------------- */

/* Against what was put and not yet answered, in random order. */
static void test_log(void **state)
{
	static struct npu_log log;
	struct npu_request *at[NPU_LOG_MAX] = { 0 };
	uint64_t seed = harness_seed();
	uint32_t msg[600], seq = UINT32_MAX - 3000; /* numbers wrap */
	struct wire_ref refs[WIRE_MAX_REFS] = { 0 };
	unsigned held = 0;
	struct err e = { 0 };

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t draw[4];
		unsigned n_refs, words;

		rng_words(seed, 1, i, draw);
		n_refs = draw[1] % WIRE_MAX_REFS;
		words = 1 + draw[2] % 600;
		for (unsigned w = 0; w < words; w++)
			msg[w] = seq + w;
		refs[0].addr = seq;
		if (draw[0] % 2 && held < NPU_LOG_MAX) {
			assert_ok(npu_log_put(&log, seq, refs, n_refs, msg,
					  words * sizeof(*msg), &at[held], &e),
				&e);
			at[held++]->wired = seq++ + 5;
		} else if (held) {
			unsigned k = draw[3] % held;
			struct npu_request *r = at[k];
			const uint32_t *had = npu_request_msg(r);

			assert_ptr_equal(npu_log_find(&log, r->wired), r);
			assert_int_equal(had[0], r->seq);
			assert_int_equal(had[r->len / 4 - 1],
				(uint32_t)(r->seq + r->len / 4 - 1));
			if (r->n_refs)
				assert_int_equal(
					npu_request_refs(r)->addr, r->seq);
			npu_log_done(&log, r);
			assert_null(npu_log_find(&log, r->wired));
			at[k] = at[--held];
		}
	}
	npu_log_lose(&log);
	for (uint32_t before = 0; held; held--) {
		struct npu_request *r = npu_log_lost(&log);

		assert_non_null(r);
		assert_null(npu_log_find(&log, r->wired));
		assert_true(!before || (int32_t)(r->seq - before) > 0);
		before = r->seq;
		npu_log_done(&log, r);
	}
	assert_null(npu_log_lost(&log));
	npu_log_release(&log);
}

static void test_log_is_bounded(void **state)
{
	static struct npu_log log;
	struct npu_request *r;
	uint32_t op = WIRE_NOP;
	struct err e = { 0 };

	for (uint32_t i = 0; i < NPU_LOG_MAX; i++)
		assert_ok(
			npu_log_put(&log, i, NULL, 0, &op, sizeof(op), &r, &e),
			&e);
	assert_int_equal(
		npu_log_put(&log, 99, NULL, 0, &op, sizeof(op), &r, &e),
		-ENOSPC);
	assert_non_null(strstr(e.text, "64 requests"));
	npu_log_release(&log);
}

/* ---- how often ----------------------------------------------------------- */

/* As if a minute had passed since the last restart. */
static void a_minute_passes(struct npu *n)
{
	memset(n->restart_at, 0, sizeof(n->restart_at));
}

static void test_restarts_are_counted(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->opts.restarts = 2;
	assert_ok(npu_open(&f->n, &f->opts, &e), &e);
	assert_false(npu_may_reopen(f->n, -EIO, &e)); /* no loss */
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 2; i++) {
			err_set(&e, ERR_DEVICE_LOST, "it is gone");
			assert_true(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
			npu_went_on(f->n);
		}
		assert_false(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
		assert_string_equal(e.text,
			"it is gone; it is one loss more than the 2 within 60 "
			"s that --restarts allows");
		a_minute_passes(f->n);
	}
	/* As slowly as may be, but for one and the same work. */
	for (unsigned i = 0; i < 2; i++) {
		assert_true(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
		a_minute_passes(f->n);
	}
	err_set(&e, ERR_DEVICE_LOST, "it is gone");
	assert_false(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
	assert_string_equal(e.text,
		"it is gone; as were the 2 before it that --restarts allows, "
		"for the same work");
	npu_went_on(f->n);
	assert_true(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_replay),
	TEST(test_forget),
	TEST(test_none_to_reach),
	TEST(test_wait),
	TEST(test_restarts_are_counted),
	cmocka_unit_test(test_log),
	cmocka_unit_test(test_log_is_bounded),
};

TEST_MAIN(tests)
