/*
 * The host's device handle with a fake device: the requests in flight, and what
 * happens to them when the device is lost.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/npu/npu.h"
#include "host/npu/npu_impl.h"
#include "host/npu/npu_log.h"
#include "ipc/wire.h"
#include "shm/buffer.h"
#include "shm/coherence/tandem_coherence.h"
#include "tensor/dtype.h"
#include "tests/harness.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY (64u << 10)
#define WIDTH  8
#define ROWS   4
#define RUNS   40

/* A fake device, and the memory of a small session in one buffer: one layer of
 * weights, a cache, hidden states and batches. */
struct fixture {
	struct fake fake;
	struct npu_opts opts;
	struct npu *n;
	struct buffer *memory;
	uint8_t *bytes;
	uint32_t id, addr;
	unsigned completions;
	uint32_t last; /* sequence number of the last completion */
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

static void count_completion(
	void *arg, uint32_t seq, const struct price *p, uint64_t busy_ns)
{
	struct fixture *f = arg;

	f->completions++;
	f->last = seq;
}

static void open_npu(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(npu_open(&f->n, &f->opts, &e), &e);
	npu_watch(f->n, count_completion, f);
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

/* Make the message that loads a graph of one layer. */
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

/* Map the memory and load a graph on the current device. */
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

/* Send run number i: a chain of ROWS rows. Each row attends to the first i
 * slots of the cache, to the rows before it, and to itself. The hidden states
 * are computed in place. Each run has a batch (the descriptions of its rows) of
 * its own in memory, because the device reads the batch later. */
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

/* Send all runs and wait until they are answered. */
static int run_all(struct fixture *f, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < RUNS && !ret; i++)
		ret = send_run(f, i, e);
	return ret ? ret : npu_drain(f->n, 0, NULL, NULL, e);
}

/* Check that sequence numbers of completions increase, then count the
 * completion. */
static void count_later(
	void *arg, uint32_t seq, const struct price *p, uint64_t busy_ns)
{
	struct fixture *f = arg;

	if (f->completions)
		assert_true((int32_t)(seq - f->last) > 0);
	count_completion(arg, seq, p, busy_ns);
}

/*
 * The device is lost at each of the requests in turn. The next device must not
 * answer requests that were in flight on the lost one. It answers only requests
 * sent to it, which have new sequence numbers. If the caller then repeats all
 * runs, the memory must have the same bytes at the end.
 */
static void test_lost(void **state)
{
	struct fixture *f = *state;
	uint8_t *want = malloc(MEMORY);
	struct err e = { 0 };

	open_npu(f);
	fill(f);
	attach(f);
	assert_ok(run_all(f, &e), &e);
	assert_int_equal(f->fake.reached, 1);
	assert_int_equal(f->fake.most_under_way, NPU_IN_FLIGHT_MAX);
	assert_int_equal(f->completions, 2 + RUNS);
	memcpy(want, f->bytes, MEMORY);
	npu_close(f->n);
	for (unsigned k = 1; k < RUNS; k++) {
		f->completions = 0;
		open_npu(f);
		npu_watch(f->n, count_later, f);
		fill(f);
		attach(f);
		f->fake.lives = k;
		assert_int_equal(run_all(f, &e), -ERR_DEVICE_LOST);
		assert_non_null(strstr(e.text, "the fake device is lost"));
		assert_int_equal(f->completions, 2 + k);
		assert_ok(npu_reopen(f->n, &e), &e);
		assert_ok(npu_drain(f->n, 0, NULL, NULL, &e), &e);
		fill(f);
		attach(f);
		assert_ok(run_all(f, &e), &e);
		assert_int_equal(f->completions, 2 + k + 2 + RUNS);
		assert_memory_equal(f->bytes, want, MEMORY);
		npu_close(f->n);
	}
	f->n = NULL;
	free(want);
}

static int cannot_open(void *arg, const struct npu_opts *o, void **device,
	struct wire_welcome *w, struct err *e)
{
	return err_set(e, ENOENT, "no device far and wide");
}

/* If no other device can be opened, every call fails with the error that
 * opening it returned. */
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
	assert_int_equal(npu_drain(f->n, 0, NULL, NULL, &e), -ENOENT);
	assert_string_equal(e.text, "no device far and wide");
	npu_stats(f->n, &st);
	assert_int_equal(st.round_trips, 2);
	f->fake.ops.open = fake_open;
	assert_ok(npu_reopen(f->n, &e), &e);
	attach(f);
}

/* ---- loads in the background --------------------------------------------- */

static bool is_answered(struct fixture *f, uint32_t seq)
{
	unsigned before = f->completions;
	struct err e = { 0 };

	assert_ok(npu_wait(f->n, seq, &e), &e);
	return f->completions == before;
}

/* A load that is answered late does not delay the wait for another request. */
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
	/* A request to a lost device is no longer in flight, so waiting for it
	 * returns at once. */
	assert_ok(send_run(f, 0, &e), &e);
	run = load + 2;
	assert_ok(npu_reopen(f->n, &e), &e);
	assert_true(is_answered(f, run));
}

/* ---- the log ------------------------------------------------------------- */

/* Compare the log with the test's own list of unanswered requests. Answers
 * arrive in random order. */
static void test_log(void **state)
{
	static struct npu_log log;
	struct npu_request at[NPU_IN_FLIGHT_MAX];
	uint64_t seed = harness_seed();
	/* so that sequence numbers wrap around */
	uint32_t seq = UINT32_MAX - 3000;
	unsigned held = 0, most = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		const struct npu_request *r;
		uint32_t draw[4];
		unsigned k;

		rng_words(seed, 1, i, draw);
		if (draw[0] % 2 && held < NPU_IN_FLIGHT_MAX) {
			at[held] =
				(struct npu_request){ seq, seq + 5, draw[1] };
			seq++;
			npu_log_put(&log, &at[held++]);
			most = held > most ? held : most;
		} else if (held) {
			k = draw[3] % held;
			r = npu_log_find(&log, at[k].wired);
			assert_ptr_equal(npu_log_of(&log, at[k].seq), r);
			assert_memory_equal(r, &at[k], sizeof(*r));
			npu_log_done(&log, r);
			assert_null(npu_log_find(&log, at[k].wired));
			assert_null(npu_log_of(&log, at[k].seq));
			at[k] = at[--held];
		}
	}
	assert_int_equal(most, NPU_IN_FLIGHT_MAX);
}

/* ---- limits of restarts -------------------------------------------------- */

/* Simulate that a minute has passed since the last restart. */
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
	/* the error is not a loss of the device */
	assert_false(npu_may_reopen(f->n, -EIO, &e));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 2; i++) {
			err_set(&e, ERR_DEVICE_LOST, "it is gone");
			assert_true(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
			npu_went_on(f->n);
		}
		assert_false(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
		assert_string_equal(e.text,
			"it is gone; --restarts allows no more than 2 losses "
			"within 60 s");
		a_minute_passes(f->n);
	}
	/* The losses are more than a minute apart, so they do not reach the
	 * limit on restarts within a minute. But no pass succeeds between the
	 * losses, so they reach the limit on losses in one pass. */
	for (unsigned i = 0; i < 2; i++) {
		assert_true(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
		a_minute_passes(f->n);
	}
	err_set(&e, ERR_DEVICE_LOST, "it is gone");
	assert_false(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
	assert_string_equal(e.text,
		"it is gone; 2 earlier devices were lost in the same pass, "
		"and --restarts allows no more");
	npu_went_on(f->n);
	assert_true(npu_may_reopen(f->n, -ERR_DEVICE_LOST, &e));
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_lost),
	TEST(test_none_to_reach),
	TEST(test_wait),
	TEST(test_restarts_are_counted),
	cmocka_unit_test(test_log),
};

TEST_FILE(tests)
