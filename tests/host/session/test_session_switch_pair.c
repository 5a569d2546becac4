/*
 * Graph switching on a real device process ($TANDEM_NPU; skipped if unset).
 * Cache and logits have the same bytes as without switching, for every plan,
 * precision, layout, number of threads and level of coherence. The device holds
 * one graph per block. According to the trace of phone time, each engine does
 * one thing at a time, and no block computes while its graph is loaded.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/session/session_impl.h"
#include "host/model/shapes.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/session/session_fixture.h"

#include <stdlib.h>
#include <string.h>

#define LAYERS 5
#define CHUNK  64
#define FEW    8
#define PROMPT 4  /* chunks of the prompt in tests of phone time */
#define MORE   12 /* rows after the prompt, decoded one by one */

/* The results of a session: cache and logits. */
struct outcome {
	size_t kv_bytes;
	uint8_t *kv; /* [layers][K, V][tokens][stride] */
	float *logits;
};

static void open_with(struct fixture *f, enum graph_switch how)
{
	f->file.n_layer = LAYERS;
	f->opts.prefill_chunk = CHUNK;
	f->opts.decode_rows = 4;
	f->opts.graph_rows = FEW;
	f->opts.graph_switch = how;
	f->opts.context = 300;
	/* a short spin (busy wait), because test machines have few CPUs */
	f->opts.spin_us = 50;
	open_session(f);
}

static struct switch_stats stats(const struct fixture *f)
{
	struct session_stats st;

	session_stats(f->s, &st);
	return st.graphs;
}

static void compute(
	struct fixture *f, const int32_t *t, uint32_t n, struct outcome *out)
{
	size_t vocab = f->file.n_vocab;
	uint32_t row = prefill(f, t, n);
	struct err e = { 0 };

	out->logits = malloc((MORE + 1) * vocab * sizeof(float));
	assert_ok(session_logits(f->s, row, 1, out->logits, &e), &e);
	for (uint32_t i = 0; i < MORE; i++) {
		forward(f, t + n + i, NULL, 1);
		assert_ok(session_logits(f->s, 0, 1,
				  out->logits + (i + 1) * vocab, &e),
			&e);
		accept(f, NULL, 1);
	}
	n += MORE;
	out->kv_bytes = n * f->s->plan.kv_stride;
	out->kv = malloc(2 * LAYERS * out->kv_bytes);
	for (uint32_t l = 0; l < LAYERS; l++)
		for (unsigned half = 0; half < 2; half++)
			assert_ok(
				sequence_read(f->s->sequences, SESSION_TEXT, l,
					half ? KV_VALUES : KV_KEYS, 0, n,
					out->kv +
						(2 * l + half) * out->kv_bytes,
					&e),
				&e);
}

static void release(struct outcome *o)
{
	free(o->kv);
	free(o->logits);
}

/* Compute n tokens twice with a switching plan and once without switching, and
 * compare the results. */
static void check_same(struct fixture *f, enum graph_switch how, uint32_t n)
{
	struct outcome want, got;
	int32_t t[400];

	tokens(f, n, t, (int)(n + MORE));
	open_with(f, SWITCH_OFF);
	compute(f, t, n, &want);
	assert_int_equal(stats(f).blocks, 0);
	pair_close(&f->s);
	open_with(f, how);
	for (unsigned again = 0; again < 2; again++) {
		struct switch_stats st;

		session_truncate(f->s, SESSION_TEXT, 0);
		compute(f, t, n, &got);
		same_bytes(got.logits, want.logits,
			(MORE + 1) * f->file.n_vocab * sizeof(float),
			graph_switch_names[how], n);
		same_bytes(got.kv, want.kv, 2 * LAYERS * want.kv_bytes,
			graph_switch_names[how], n);
		st = stats(f);
		assert_int_equal(st.blocks, LAYERS);
		assert_int_equal(st.most_graphs, LAYERS);
		assert_int_equal(st.loads, st.reloads + LAYERS);
		release(&got);
	}
	pair_close(&f->s);
	release(&want);
}

static void test_plans(void **state)
{
	struct fixture *f = *state;

	f->opts.coherence = COHERENCE_CHECK;
	for (enum graph_switch how = SWITCH_SYNC; how < SWITCH_COUNT; how++)
		check_same(f, how, 2 * CHUNK + 9 + how);
}

static void test_lengths(void **state)
{
	static const uint32_t lengths[] = { 1, FEW + 1, CHUNK, CHUNK + 1 };
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_LEN(lengths); i++)
		check_same(f, SWITCH_PARTIAL, lengths[i]);
}

static void test_precisions(void **state)
{
	struct fixture *f = *state;

	f->opts.coherence = COHERENCE_STRICT;
	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++) {
		f->opts.precision = (enum wire_precision)p;
		f->opts.threads = 1 + p % 3;
		f->opts.layout = p % 2 ? LAYOUT_ROWS : LAYOUT_TILES;
		check_same(f, SWITCH_PARTIAL, 2 * CHUNK + 5);
	}
}

/* Switch graphs while weights are swapped, while the cache consists of separate
 * runs of slots, and after the device was asleep. */
static void test_surroundings(void **state)
{
	struct fixture *f = *state;

	f->opts.coherence = COHERENCE_CHECK;
	f->opts.va_slots = 4;
	check_same(f, SWITCH_BEST, 100);
	f->opts.va_slots = session_defaults.va_slots;
	f->opts.sequences = 3;
	f->opts.doorbell = DOORBELL_EVENTFD;
	check_same(f, SWITCH_BEST, 100);
}

/* After a fork, the session uses only decode graphs to compute the tokens that
 * follow the shared prefix. */
static void test_fork(void **state)
{
	struct fixture *f = *state;
	size_t bytes;
	float *want, *got;
	int32_t t[200];
	uint32_t fork, row;
	struct err e = { 0 };

	f->opts.sequences = 2;
	tokens(f, 77, t, 200);
	open_with(f, SWITCH_OFF);
	bytes = f->file.n_vocab * sizeof(float);
	want = malloc(bytes);
	got = malloc(bytes);
	row = prefill(f, t, 170);
	assert_ok(session_logits(f->s, row, 1, want, &e), &e);
	pair_close(&f->s);
	open_with(f, SWITCH_GREEDY);
	prefill(f, t, 101);
	assert_ok(session_fork(f->s, SESSION_TEXT, &fork, &e), &e);
	assert_ok(session_prefill(f->s, fork, t + 101, 69, NULL, &row, &e), &e);
	assert_ok(session_logits(f->s, row, 1, got, &e), &e);
	same_bytes(got, want, bytes, "fork", 0);
	free(want);
	free(got);
}

/* ---- the phone's time ---------------------------------------------------- */

struct spread {
	uint64_t begin, end;
};

static void check_log(struct fixture *f, uint32_t chunks)
{
	struct spread load[LAYERS] = { 0 }, run = { 0 }, loader = { 0 };
	const struct graph_event *log;
	unsigned runs = 0, want = 0;
	size_t n;

	log = session_graph_log(f->s, &n);
	for (size_t i = 0; i < n; i++)
		if (log[i].load) {
			assert_int_equal(load[log[i].block].end, 0);
			assert_true(log[i].begin >= loader.end);
			loader = load[log[i].block] =
				(struct spread){ log[i].begin, log[i].end };
			assert_int_equal(log[i].rows, FEW);
		}
	for (size_t i = 0; i < n; i++) {
		const struct spread *its = &load[log[i].block];
		bool before = log[i].end <= its->begin;

		if (log[i].load)
			continue;
		assert_true(log[i].begin >= run.end);
		assert_true(log[i].end > log[i].begin);
		run.end = log[i].end;
		if (!before && log[i].begin < its->end)
			fail_msg("block %u computes from %llu to %llu, and is "
				 "loaded from %llu to %llu",
				log[i].block, (unsigned long long)log[i].begin,
				(unsigned long long)log[i].end,
				(unsigned long long)its->begin,
				(unsigned long long)its->end);
		assert_int_equal(log[i].rows, before ? CHUNK : FEW);
		assert_true(log[i].chunk < chunks);
		runs += log[i].rows;
		want = log[i].chunk * LAYERS + log[i].block;
	}
	assert_int_equal(runs, chunks * LAYERS * CHUNK);
	assert_int_equal(want, chunks * LAYERS - 1);
	for (unsigned b = 0; b < LAYERS; b++)
		assert_true(load[b].end > 0);
	assert_int_equal(stats(f).prompt_time,
		run.end > loader.end ? run.end : loader.end);
}

/* The phone time is the same on every machine. It is close to the planned time,
 * which assumes that a run's time grows linearly with the text's length. */
static void test_phone(void **state)
{
	uint64_t took[SWITCH_COUNT] = { 0 };
	struct fixture *f = *state;
	/* static, because teardown closes the session that uses it */
	static struct soc soc;
	int32_t t[PROMPT * CHUNK];
	struct err e = { 0 };

	assert_ok(soc_file_load(&soc, "tensor/soc/sd8gen2.soc", &e), &e);
	/* a load time in proportion to the small model */
	soc.graph_load_s = 2e-5;
	f->opts.soc = &soc;
	tokens(f, 6, t, PROMPT * CHUNK);
	for (unsigned i = 0; i < 2 * SWITCH_COUNT; i++) {
		enum graph_switch how = i % SWITCH_COUNT;
		struct session_stats st;

		f->opts.threads = 1 + i / SWITCH_COUNT;
		open_with(f, how);
		assert_int_equal(session_phone_ps(f->s), 0);
		session_stats(f->s, &st);
		assert_int_equal(st.rows + st.padded_rows + st.passes, 0);
		prefill(f, t, PROMPT * CHUNK);
		session_stats(f->s, &st);
		assert_true(!took[how] || st.prompt_ps == took[how]);
		took[how] = st.prompt_ps;
		if (how) {
			assert_int_equal(st.graphs.prompt_time, st.prompt_ps);
			assert_close((double)st.graphs.planned_time /
					(double)st.prompt_ps,
				1, .02, graph_switch_names[how]);
			check_log(f, PROMPT);
		}
		pair_close(&f->s);
	}
	/* Without loads a prompt takes the shortest time. The plan `best` is
	 * chosen by planned times, which differ slightly from these times. */
	for (enum graph_switch how = SWITCH_SYNC; how < SWITCH_COUNT; how++) {
		print_message("%s: %.3f ms\n", graph_switch_names[how],
			(double)took[how] * 1e-9);
		assert_true(took[how] > took[SWITCH_OFF]);
		assert_true(
			(double)took[SWITCH_BEST] < 1.02 * (double)took[how]);
	}
	assert_true(took[SWITCH_ASYNC] < took[SWITCH_SYNC]);
}

/* The time is estimated for a model a thousand times as large as the test's
 * model. Loads are priced for that model too, and the plan made for that model
 * is executed. */
static void test_priced_as(void **state)
{
	struct fixture *f = *state;
	static struct soc soc;
	int32_t t[PROMPT * CHUNK];
	struct err e = { 0 };

	assert_ok(soc_file_load(&soc, "tensor/soc/sd8gen2.soc", &e), &e);
	f->opts.soc = &soc;
	for (size_t i = 0; shape_names[i] && !f->opts.as; i++)
		if (!strcmp(shapes[i].name, "qwen2.5-0.5b"))
			f->opts.as = &shapes[i];
	assert_non_null(f->opts.as);
	tokens(f, 8, t, PROMPT * CHUNK);
	for (enum graph_switch how = SWITCH_SYNC; how < SWITCH_COUNT; how++) {
		struct switch_stats st;

		open_with(f, how);
		prefill(f, t, PROMPT * CHUNK);
		st = stats(f);
		check_log(f, PROMPT);
		assert_close((double)st.planned_time / (double)st.prompt_time,
			1, .02, graph_switch_names[how]);
		/* The layers of the large model have 0.358e9 weights of 4 bytes
		 * each (the type in this file), loaded at 4e9 bytes per
		 * second. */
		assert_close((double)st.load_time * 1e-12, .358, .02, "load");
		pair_close(&f->s);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_plans),
	TEST(test_lengths),
	TEST(test_precisions),
	TEST(test_surroundings),
	TEST(test_fork),
	TEST(test_phone),
	TEST(test_priced_as),
};

TEST_FILE(tests)
