/*
 * Graph switching (each block has a prefill graph and a decode graph, and only
 * one of them is loaded) on a fake device (tests/host/npu/fake_device.h). The
 * device computes in the test process, and the test sets its estimated times
 * (prices). A session executes figure 8 of the sd.npu paper. Executions (of one
 * chunk of the prompt by one block) follow the plan, to the picosecond. The
 * logits equal those of a reference transformer (reference_model.h) for every
 * plan, however late the device answers a load and wherever the device is lost.
 */
#include "host/session/session_impl.h"
#include "host/session/switching.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/npu/fake_device.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/reattach.h"

#include <errno.h>
#include <math.h>

#define LAYERS 6
#define VOCAB  96
#define CHUNK  8
#define FEW    4 /* rows of a decode graph */
#define TEXT   40
#define UNIT   1000000u /* one time unit in picoseconds */

struct fixture {
	struct fake fake;
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct soc soc;
	struct session *s;
	/* prices of loads and runs, in picoseconds */
	uint64_t load[LAYERS], run[GRAPH_KINDS][LAYERS];
	int32_t token[TEXT];
	float got[TEXT][VOCAB];
	uint32_t from; /* first row with logits */
	double want[TEXT][VOCAB];
};

/* ---- a device with prices ------------------------------------------------ */

static void price(struct fake *fake, const void *request, struct fake_answer *a)
{
	/* both kinds of messages begin with these members */
	const struct wire_simple *q = request;
	const struct fixture *f = fake->arg;
	uint32_t block = q->arg / MAX_GRAPHS, kind = q->arg % MAX_GRAPHS;
	struct price p = { 0 };

	if (q->op == WIRE_GRAPH_LOAD)
		p.total_ps = f->load[block];
	else if (q->op == WIRE_GRAPH_RUN)
		p.total_ps = f->run[kind][block];
	memcpy(a->done.price, &p, sizeof(a->done.price));
}

static void prices(
	struct fixture *f, uint64_t load, uint64_t prefill, uint64_t decode)
{
	for (unsigned b = 0; b < LAYERS; b++) {
		f->load[b] = load;
		f->run[GRAPH_PREFILL][b] = prefill;
		f->run[GRAPH_DECODE][b] = decode;
	}
}

static uint64_t seed(void)
{
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	fake_init(&f->fake);
	f->fake.arg = f;
	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->opts = session_defaults;
	f->opts.npu = &f->fake.ops;
	f->opts.threads = 1;
	f->opts.prefill_chunk = CHUNK;
	f->opts.graph_rows = FEW;
	f->opts.context = 64;
	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
	f->opts.graph_switch = SWITCH_GREEDY;
	f->model = model_file_open(&f->file);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	for (uint64_t i = 0; i < TEXT; i++)
		f->token[i] = (int32_t)(rng_uniform(seed(), 1, i) * VOCAB);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_session(struct fixture *f)
{
	pair_open(&f->s, f->model, &f->opts);
}

static void open_priced(struct fixture *f)
{
	f->opts.soc = &f->soc;
	f->fake.forge = price;
	open_session(f);
}

static struct switch_stats stats(const struct fixture *f)
{
	struct session_stats st;

	session_stats(f->s, &st);
	return st.graphs;
}

/* Read a prompt of n tokens without reading logits, so that the host has no
 * work. Returns the statistics of this prompt. */
static struct switch_stats prompt(struct fixture *f, uint32_t n)
{
	struct switch_stats before = stats(f), after;
	struct err e = { 0 };
	uint32_t row;

	session_truncate(f->s, SESSION_TEXT, 0);
	assert_ok(session_prefill(
			  f->s, SESSION_TEXT, f->token, n, NULL, &row, &e),
		&e);
	after = stats(f);
	assert_int_equal(after.prompts, before.prompts + 1);
	after.loads -= before.loads;
	after.reloads -= before.reloads;
	after.load_time -= before.load_time;
	after.reload_time -= before.reload_time;
	after.wait_time -= before.wait_time;
	after.prompt_time -= before.prompt_time;
	after.planned_time -= before.planned_time;
	return after;
}

/* ---- figure 8 ------------------------------------------------------------ */

/* For each plan: the loaded blocks, the time unit in which each load begins,
 * the total time, and the time spent waiting for loads. */
static const struct {
	enum graph_switch how;
	unsigned block[LAYERS], begin[LAYERS], makespan, waited;
} figure_8[] = {
	{ SWITCH_GREEDY, { 5, 4, 3, 2, 1, 0 }, { 0, 2, 4, 6, 8, 10 }, 12, 0 },
	{ SWITCH_SYNC, { 0, 1, 2, 3, 4, 5 }, { 12, 14, 16, 18, 20, 22 }, 24,
		12 },
	{ SWITCH_ASYNC, { 0, 1, 2, 3, 4, 5 }, { 7, 9, 11, 13, 15, 17 }, 19, 7 },
};

static void check_figure(struct fixture *f, unsigned c)
{
	const struct graph_event *log;
	unsigned loads = 0;
	uint64_t run_end = 0;
	size_t n;

	log = session_graph_log(f->s, &n);
	for (size_t i = 0; i < n; i++) {
		const struct graph_event *ev = &log[i];

		if (ev->load) {
			unsigned begin;

			assert_true(loads < LAYERS);
			begin = figure_8[c].begin[loads];
			assert_int_equal(ev->block, figure_8[c].block[loads++]);
			assert_int_equal(ev->begin, begin * UNIT);
			assert_int_equal(ev->end, (begin + 2) * UNIT);
			assert_int_equal(ev->rows, FEW);
		} else {
			assert_int_equal(ev->begin, run_end);
			assert_int_equal(ev->chunk, ev->begin / UNIT / LAYERS);
			assert_int_equal(ev->block, ev->begin / UNIT % LAYERS);
			run_end = ev->end;
		}
	}
	assert_int_equal(loads, LAYERS);
	assert_int_equal(run_end, 12 * UNIT);
}

/* Figure 8 as executed by a session. Two runs of a decode graph take as long as
 * one of the prefill graph. */
static void test_figure_8(void **state)
{
	struct fixture *f = *state;

	prices(f, 2 * UNIT, UNIT, UNIT / 2);
	for (unsigned c = 0; c < ARRAY_LEN(figure_8); c++) {
		struct switch_stats st;

		f->opts.graph_switch = figure_8[c].how;
		open_priced(f);
		st = prompt(f, 2 * CHUNK);
		assert_int_equal(st.prompt_time, figure_8[c].makespan * UNIT);
		assert_int_equal(st.planned_time, st.prompt_time);
		assert_int_equal(session_phone_ps(f->s), st.prompt_time);
		assert_int_equal(st.wait_time, figure_8[c].waited * UNIT);
		assert_int_equal(st.loads, LAYERS);
		assert_int_equal(st.load_time, 12 * UNIT);
		assert_int_equal(st.most_graphs, LAYERS);
		check_figure(f, c);
		pair_close(&f->s);
	}
}

/* ---- execution as planned ------------------------------------------------ */

static uint64_t number(uint64_t stream, uint64_t at, uint64_t most)
{
	return (uint64_t)(rng_uniform(seed() + 5, stream, at) * (double)most);
}

static void draw_prices(struct fixture *f, uint64_t stream)
{
	uint64_t load = 1 + number(stream, 0, 5 * UNIT);

	for (unsigned b = 0; b < LAYERS; b++) {
		f->load[b] = 1 + number(stream, 3 * b + 1, load);
		f->run[GRAPH_PREFILL][b] =
			UNIT / 2 + number(stream, 3 * b + 2, UNIT);
		f->run[GRAPH_DECODE][b] =
			UNIT / 4 + number(stream, 3 * b + 3, UNIT);
	}
}

static void test_done_as_planned(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 60; i++) {
		unsigned late = (unsigned)number(90, i, 20);

		draw_prices(f, 100 + i);
		f->opts.graph_switch =
			SWITCH_SYNC + i % (SWITCH_COUNT - SWITCH_SYNC);
		f->fake.late = late;
		open_priced(f);
		for (unsigned k = 0; k < 3; k++) {
			uint32_t chunks = 1 + (uint32_t)number(91 + k, i, 4);
			struct switch_stats st = prompt(f, chunks * CHUNK);

			if (st.prompt_time != st.planned_time)
				fail_msg("draw %u, prompt %u, %s, %u chunks, "
					 "loads late by %u: %llu ps, but %llu "
					 "were planned",
					i, k,
					graph_switch_names
						[f->opts.graph_switch],
					chunks, late,
					(unsigned long long)st.prompt_time,
					(unsigned long long)st.planned_time);
			assert_int_equal(st.most_graphs, LAYERS);
		}
		pair_close(&f->s);
	}
}

/* After the first prompt all decode graphs are loaded. A later prompt runs in
 * the decode graphs if that takes no longer than loading the prefill graphs
 * again. Otherwise each prefill graph is first loaded once. */
static void test_later_prompts(void **state)
{
	struct fixture *f = *state;
	struct switch_stats st;
	const struct graph_event *log;
	size_t n;

	prices(f, 2 * UNIT, UNIT, UNIT / 2);
	open_priced(f);
	prompt(f, 2 * CHUNK);
	st = prompt(f, 2 * CHUNK);
	assert_int_equal(st.loads + st.reloads, 0);
	assert_int_equal(st.prompt_time, 12 * UNIT);
	pair_close(&f->s);

	prices(f, 4 * UNIT, 2 * UNIT, 3 * UNIT);
	f->opts.graph_switch = SWITCH_SYNC;
	open_priced(f);
	prompt(f, CHUNK);
	/* Six loads of prefill graphs, 24 runs, and six loads of decode
	 * graphs. */
	st = prompt(f, 4 * CHUNK);
	assert_int_equal(st.reloads, LAYERS);
	assert_int_equal(st.reload_time, 24 * UNIT);
	assert_int_equal(st.loads, LAYERS);
	assert_int_equal(st.prompt_time, 96 * UNIT);
	log = session_graph_log(f->s, &n);
	assert_int_equal(n, 24 + 12);
	for (unsigned i = 0; i < LAYERS; i++) {
		assert_true(log[i].load);
		assert_int_equal(log[i].block, i);
		assert_int_equal(log[i].rows, CHUNK);
		assert_int_equal(log[i].begin, i * 4 * UNIT);
		assert_int_equal(log[30 + i].rows, FEW);
	}
	/* For a prompt of one row, loading graphs takes longer than it
	 * saves. */
	st = prompt(f, 1);
	assert_int_equal(st.loads + st.reloads, 0);
	assert_int_equal(st.prompt_time, 18 * UNIT);
}

/* If prefill graphs are loaded in idle time, the next prompt can use them at
 * once. */
static void test_rest(void **state)
{
	struct fixture *f = *state;
	struct switch_stats first, st;
	struct err e = { 0 };
	uint64_t began;

	prices(f, 4 * UNIT, 2 * UNIT, 3 * UNIT);
	f->opts.graph_switch = SWITCH_SYNC;
	open_priced(f);
	first = prompt(f, 4 * CHUNK);
	began = session_phone_ps(f->s);
	assert_ok(session_rest(f->s, &e), &e);
	assert_int_equal(session_phone_ps(f->s) - began, 24 * UNIT);
	assert_ok(session_rest(f->s, &e), &e);
	assert_int_equal(session_phone_ps(f->s) - began, 24 * UNIT);
	st = prompt(f, 4 * CHUNK);
	assert_int_equal(st.prompt_time, first.prompt_time);
	assert_int_equal(st.loads, LAYERS);
}

/* ---- logits -------------------------------------------------------------- */

/* Read a prompt, and compute the logits of its last chunk. */
static int read_prompt(struct fixture *f, uint32_t n, struct err *e)
{
	uint32_t row;
	int ret =
		session_prefill(f->s, SESSION_TEXT, f->token, n, NULL, &row, e);

	if (ret)
		return ret;
	f->from = n - 1 - row;
	return session_logits(f->s, 0, row + 1, f->got[f->from], e);
}

/* Compute the rest of the text in passes of one token or of a chunk. A chunk is
 * larger than the decode graph, so it runs in parts. */
static void go_on(struct fixture *f, uint32_t at)
{
	struct err e = { 0 };

	for (uint32_t n; at < TEXT; at += n) {
		n = at % 3 ? 1 : CHUNK;
		n = TEXT - at < n ? TEXT - at : n;
		assert_ok(session_continue(
				  f->s, SESSION_TEXT, f->token + at, n, &e),
			&e);
		assert_ok(session_logits(f->s, 0, n, f->got[at], &e), &e);
		assert_ok(session_accept(f->s, SESSION_TEXT, NULL, n, &e), &e);
	}
}

/* Compare the float32 logits with those of the reference transformer, which
 * computes in double precision. Rounding errors are far below the accepted
 * difference. */
static void check_reference(struct fixture *f, const char *what)
{
	ref_logits(f->model->gguf, &f->file, f->token, TEXT, f->want[0]);
	for (unsigned i = f->from; i < TEXT; i++)
		for (unsigned v = 0; v < VOCAB; v++)
			if (fabs((double)f->got[i][v] - f->want[i][v]) > 2e-5)
				fail_msg("%s, row %u: logit %u is %.9g, not "
					 "%.9g",
					what, i, v, (double)f->got[i][v],
					f->want[i][v]);
	memset(f->got, 0, sizeof(f->got));
}

static void test_is_the_definition(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	for (enum graph_switch how = SWITCH_SYNC; how < SWITCH_COUNT; how++) {
		f->opts.graph_switch = how;
		for (unsigned late = 0; late < 40; late += 13) {
			f->fake.late = late;
			draw_prices(f, how);
			open_priced(f);
			assert_ok(read_prompt(f, 27, &e), &e);
			go_on(f, 27);
			check_reference(f, graph_switch_names[how]);
			session_truncate(f->s, SESSION_TEXT, 0);
			assert_ok(read_prompt(f, 13, &e), &e);
			go_on(f, 13);
			check_reference(f, graph_switch_names[how]);
			pair_close(&f->s);
		}
	}
}

/* Switch graphs while weights are swapped in and out of the device's window. */
static void test_small_window(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->opts.va_slots = 4;
	f->opts.graph_switch = SWITCH_BEST;
	f->fake.late = 7;
	draw_prices(f, 44);
	open_priced(f);
	assert_ok(read_prompt(f, 30, &e), &e);
	go_on(f, 30);
	check_reference(f, "a small window");
}

/* Without a simulated clock the times are unknown, so the test checks only the
 * results. */
static void test_wall(void **state)
{
	struct fixture *f = *state;
	const struct graph_event *log;
	struct switch_stats st;
	size_t n, loads = 0;

	f->opts.graph_switch = SWITCH_PARTIAL;
	f->fake.late = 3;
	open_session(f);
	st = prompt(f, 3 * CHUNK);
	assert_int_equal(st.loads, LAYERS);
	log = session_graph_log(f->s, &n);
	for (size_t i = 0; i < n; i++) {
		assert_true(log[i].begin <= log[i].end);
		assert_true(log[i].end <= st.prompt_time);
		assert_true(!i || log[i].end >= log[i - 1].end);
		loads += log[i].load;
	}
	assert_int_equal(loads, LAYERS);
}

/* ---- a device that is lost ----------------------------------------------- */

static void test_lost(void **state)
{
	struct fixture *f = *state;
	unsigned lost = 0, late = 0;

	f->opts.graph_switch = SWITCH_PARTIAL;
	for (unsigned lives = 1; lives < 70; lives += 3) {
		struct err e = { 0 };
		int ret;

		prices(f, 3 * UNIT, UNIT, UNIT);
		f->fake.late = late++ % 4;
		open_priced(f);
		f->fake.lives = lives;
		while ((ret = read_prompt(f, 25, &e))) {
			assert_int_equal(ret, -ERR_DEVICE_LOST);
			assert_ok(reattach(f->s, &e), &e);
			session_truncate(f->s, SESSION_TEXT, 0);
			lost++;
		}
		f->fake.lives = 0;
		go_on(f, 25);
		check_reference(f, "after a loss");
		assert_int_equal(stats(f).most_graphs, LAYERS);
		pair_close(&f->s);
	}
	assert_true(lost >= 10);
}

/* The session replaces the device itself (opts.restarts), so the caller sees no
 * loss, neither while graphs are switched nor after that. */
static void test_replaced(void **state)
{
	struct fixture *f = *state;
	unsigned replaced = 0;

	f->opts.restarts = SESSION_RESTARTS_MAX;
	f->opts.graph_switch = SWITCH_SYNC;
	prices(f, 3 * UNIT, UNIT, UNIT);
	for (unsigned lives = 1; lives < 60; lives++) {
		struct err e = { 0 };

		open_priced(f);
		f->fake.lives = lives;
		assert_ok(read_prompt(f, 25, &e), &e);
		go_on(f, 25);
		replaced += !f->fake.lives;
		f->fake.lives = 0;
		check_reference(f, "after a replacement");
		assert_int_equal(stats(f).most_graphs, LAYERS);
		pair_close(&f->s);
	}
	assert_true(replaced >= 50);
}

/* ---- refusals ------------------------------------------------------------ */

static void refuses(struct fixture *f, const char *says)
{
	struct err e = { 0 };
	int ret = session_open(&f->s, f->model, &f->opts, &e);

	if (ret != -EINVAL || !strstr(e.text, says))
		fail_msg("%d '%s' does not contain '%s'", ret, e.text, says);
	f->s = NULL;
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct session *first;

	f->opts.graph_rows = CHUNK;
	refuses(f, "not smaller than the prefill graph (8 rows)");
	f->opts.graph_rows = FEW;
	f->opts.decode_rows = 9;
	refuses(f, "the decode graph (9 rows)");
	f->opts.decode_rows = 1;
	f->opts.smaller_graphs = true;
	refuses(f, "smaller graphs were requested");
	f->opts.smaller_graphs = false;
	f->opts.one_graph = true;
	refuses(f, "with --one-graph there is only one");
	f->opts.one_graph = false;
	open_session(f);
	first = f->s;
	f->opts.beside = first;
	refuses(f, "a second model on the device needs its own");
	f->s = first;
}

static void test_too_many_blocks(void **state)
{
	struct fixture *f = *state;

	model_close(f->model);
	f->file.n_layer = f->opts.graph_blocks = SWITCH_BLOCKS + 1;
	f->model = model_file_open(&f->file);
	refuses(f,
		"at most 64 blocks of layers, but with this window there are "
		"65");
}

/* After a prompt the decode graphs, which have few rows, are loaded. A chain of
 * more rows runs through them in parts. A tree of more rows cannot be divided
 * and is refused. */
static void test_many_rows(void **state)
{
	static const int32_t parent[] = { -1, 0, 0, 1, 2 };
	struct fixture *f = *state;
	struct err e = { 0 };

	open_session(f);
	assert_ok(pair_tree(f->s, f->token, parent, 5, NULL, &e), &e);
	prompt(f, CHUNK);
	assert_int_equal(
		pair_tree(f->s, f->token, parent, 5, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text,
		"a tree of 5 rows cannot be computed while graph switching "
		"keeps only graphs of 4 rows loaded"));
	assert_ok(pair_tree(f->s, f->token, parent, 4, NULL, &e), &e);
	assert_ok(session_continue(f->s, SESSION_TEXT, f->token, 5, &e), &e);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_figure_8),
	TEST(test_done_as_planned),
	TEST(test_later_prompts),
	TEST(test_rest),
	TEST(test_is_the_definition),
	TEST(test_small_window),
	TEST(test_wall),
	TEST(test_lost),
	TEST(test_replaced),
	TEST(test_refused),
	TEST(test_too_many_blocks),
	TEST(test_many_rows),
};

TEST_FILE(tests)
