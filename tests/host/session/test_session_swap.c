/*
 * Weights that are swapped according to a plan: some blocks stay mapped in the
 * device's window, and the others are copied in turn into two slots of the
 * window. The results are the same in every window from the smallest possible
 * one, under every placement policy, with slots that are overwritten after use,
 * with other layers streamed from flash, and after a device is lost. Other
 * tests check refused options and compare the phone time with a simulation of
 * two slots. The tests use a fake device, which computes in the test process,
 * and a real device process ($TANDEM_NPU; skipped if unset).
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/memory/placement.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/session/session_impl.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"
#include "tests/host/npu/fake_device.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/reattach.h"

#include <errno.h>
#include <string.h>

#define LAYERS 6
#define VOCAB  96
#define CHUNK  8
#define TEXT   24
#define PAGE   4096u

struct fixture {
	struct fake fake;
	struct model_file file;
	struct model *model;
	struct image_file image;
	struct soc soc;
	struct session_opts opts;
	struct session *s;
	int32_t token[TEXT];
	float got[TEXT][VOCAB], want[TEXT][VOCAB];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t seed = harness_seed();

	fake_init(&f->fake);
	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->opts = session_defaults;
	f->opts.npu = &f->fake.ops;
	f->opts.threads = 1;
	f->opts.spin_us = 50; /* short, as tests have few CPUs */
	f->opts.prefill_chunk = CHUNK;
	f->opts.decode_rows = 4;
	f->opts.context = 32;
	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
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

/* Compute the next tokens: a chunk, a single token or three tokens, so that
 * graphs of several sizes are used. Stores their number in *n. */
static int forward(struct fixture *f, uint32_t from, uint32_t *n, struct err *e)
{
	int ret;

	*n = from % 3 ? 1 : from % 2 ? 3 : CHUNK;
	*n = TEXT - from < *n ? TEXT - from : *n;
	ret = session_continue(f->s, SESSION_TEXT, &f->token[from], *n, e);
	if (!ret)
		ret = session_logits(f->s, 0, *n, f->got[from], e);
	return ret ? ret : session_accept(f->s, SESSION_TEXT, NULL, *n, e);
}

static int open_on(struct fixture *f, const struct model *m, struct err *e)
{
	return session_open(&f->s, m, &f->opts, e);
}

static void run_text(
	struct fixture *f, const struct model *m, struct session_stats *st)
{
	struct err e = { 0 };
	uint32_t n;

	memset(f->got, 0, sizeof(f->got));
	assert_ok(open_on(f, m, &e), &e);
	for (uint32_t at = 0; at < TEXT; at += n)
		assert_ok(forward(f, at, &n, &e), &e);
	session_stats(f->s, st);
}

static void close_text(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
}

static void check_same(const struct fixture *f, const char *how)
{
	for (unsigned i = 0; i < TEXT; i++)
		if (memcmp(f->got[i], f->want[i], sizeof(f->got[i])) != 0)
			fail_msg("%s in a window of %llu bytes and %u slots: "
				 "other logits after token %u",
				how, (unsigned long long)f->opts.va_window,
				f->opts.va_slots, i);
}

/* Record the expected results in a window in which nothing is swapped. */
static void record(struct fixture *f, const struct model *m)
{
	struct session_stats st;

	run_text(f, m, &st);
	assert_int_equal(st.unmaps, 0);
	close_text(f);
	memcpy(f->want, f->got, sizeof(f->want));
}

static uint64_t with_guard(uint64_t bytes)
{
	return align_up(bytes, PAGE) + PAGE;
}

/* Bytes of the smallest usable window: a guard at address 0, then the cache,
 * the activations and two layers. Each of these four is followed by a guard. */
static uint64_t smallest_window(struct fixture *f)
{
	uint64_t bytes, layer = 0;
	struct err e = { 0 };

	assert_ok(open_on(f, f->model, &e), &e);
	assert_int_equal(f->s->n_blocks, LAYERS);
	for (unsigned i = 0; i < LAYERS; i++)
		if (f->s->block[i].bytes > layer)
			layer = f->s->block[i].bytes;
	bytes = PAGE + with_guard(f->s->plan.kv_bytes) +
		with_guard(f->s->plan.io_bytes) + 2 * with_guard(layer);
	close_text(f);
	return bytes;
}

/* ---- windows ------------------------------------------------------------- */

static void check_swapped(const struct fixture *f,
	const struct session_stats *st, uint64_t *last_copied)
{
	uint64_t passes = st->passes;

	assert_int_equal(st->unmaps, 0);
	assert_true(st->bytes_mapped <= f->opts.va_window);
	/* At any time two copies for the next blocks are in progress or
	 * complete. */
	if (st->temporary_blocks)
		assert_int_equal(st->copies, passes * st->temporary_blocks + 2);
	else
		assert_int_equal(st->copies, 0);
	assert_true(st->copied_bytes <= *last_copied);
	*last_copied = st->copied_bytes;
}

static void test_every_window(void **state)
{
	struct fixture *f = *state;
	uint64_t last = UINT64_MAX, smallest;
	struct session_stats st;
	unsigned windows = 0;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	record(f, f->model);
	f->opts.placement = PLACEMENT_SWAP;
	f->opts.swap_poison = true;
	smallest = smallest_window(f);
	f->opts.va_window = smallest;
	/* two slots for weights, so no layer stays mapped */
	f->opts.va_slots = 4;
	run_text(f, f->model, &st);
	check_same(f, "swap");
	assert_int_equal(st.temporary_blocks, LAYERS);
	assert_int_equal(st.resident_bytes, 0);
	assert_int_equal(st.maps, 4);
	close_text(f);
	f->opts.va_slots = 8;
	f->opts.va_window = smallest - PAGE;
	assert_int_equal(open_on(f, f->model, &e), -ENOSPC);
	if (!strstr(e.text, "two staging slots of 0."))
		fail_msg("%s", e.text);
	for (f->opts.va_window = smallest; !windows || st.temporary_blocks;
		f->opts.va_window += 7 * PAGE, windows++) {
		run_text(f, f->model, &st);
		check_same(f, "swap");
		check_swapped(f, &st, &last);
		close_text(f);
	}
	assert_true(windows >= 6);
	assert_int_equal(st.blocks, LAYERS);
	assert_int_equal(st.maps, 3); /* one of the mappings has all blocks */
}

static void test_other_placements(void **state)
{
	static const enum placement_policy policy[] = { PLACEMENT_BELADY,
		PLACEMENT_PAGING, PLACEMENT_DROP_ALL };
	struct fixture *f = *state;
	struct session_stats st;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	record(f, f->model);
	for (unsigned i = 0; i < 3; i++) {
		f->opts.placement = policy[i];
		for (f->opts.va_slots = 3; f->opts.va_slots < 9;
			f->opts.va_slots++) {
			run_text(f, f->model, &st);
			check_same(f, placement_names[policy[i]]);
			if (i && f->opts.va_slots < 8)
				assert_int_equal(
					st.maps, 2 + LAYERS * st.passes);
			close_text(f);
		}
	}
	f->opts.placement = PLACEMENT_FIXED;
	f->opts.va_slots = 8;
	run_text(f, f->model, &st);
	check_same(f, "fixed");
	close_text(f);
	f->opts.va_slots = 7;
	assert_int_equal(open_on(f, f->model, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "--placement fixed keeps all"));
	assert_non_null(strstr(e.text, "7 of 7 slots used"));
}

/* Another session takes so much of the window that blocks of three layers do
 * not fit into two slots. Then each layer becomes a block. */
static void test_cut_by_layer(void **state)
{
	struct fixture *f = *state;
	uint64_t smallest, beside;
	struct session_stats st;
	struct session *first;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	f->opts.weight_buffers = LAYERS;
	smallest = smallest_window(f);
	record(f, f->model);
	assert_ok(open_on(f, f->model, &e), &e);
	session_stats(f->s, &st);
	beside = st.bytes_mapped + (2 + LAYERS) * 2 * PAGE;
	close_text(f);
	f->opts.va_window = smallest + beside;
	assert_ok(open_on(f, f->model, &e), &e);
	first = f->s;
	f->opts.beside = first;
	f->opts.placement = PLACEMENT_SWAP;
	f->opts.weight_buffers = 2;
	run_text(f, f->model, &st);
	check_same(f, "swap by layer");
	assert_int_equal(st.blocks, LAYERS);
	assert_in_range(st.temporary_blocks, 2, LAYERS);
	close_text(f);
	f->s = first;
}

/* Some layers are streamed from flash, some stay mapped, and some are
 * swapped. */
static void test_beside_flash(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	record(f, f->model);
	image_file_open(&f->image, f->model, 0);
	f->opts.layout = LAYOUT_DEFAULT;
	f->opts.placement = PLACEMENT_SWAP;
	f->opts.swap_poison = true;
	f->opts.stage_slots = 2;
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	for (unsigned i = 0; i < LAYERS; i++) {
		f->opts.dram_share = (i + .5) / LAYERS;
		f->opts.soc = i % 2 ? &f->soc : NULL;
		for (f->opts.va_slots = 6; f->opts.va_slots < 8;
			f->opts.va_slots++) {
			run_text(f, f->image.model, &st);
			check_same(f, "swap beside flash");
			assert_int_equal(st.resident_layers, i);
			assert_int_equal(st.staging.layers_used,
				st.passes * (LAYERS - i));
			close_text(f);
		}
	}
}

/* ---- a device that is lost ----------------------------------------------- */

static void test_lost(void **state)
{
	struct fixture *f = *state;
	unsigned lost = 0;

	f->model = model_file_open(&f->file);
	record(f, f->model);
	f->opts.placement = PLACEMENT_SWAP;
	f->opts.swap_poison = true;
	f->opts.va_slots = 4;
	for (unsigned lives = 1; lives < 50; lives += 3) {
		struct err e = { 0 };
		uint32_t n;

		memset(f->got, 0, sizeof(f->got));
		assert_ok(open_on(f, f->model, &e), &e);
		assert_ok(forward(f, 0, &n, &e), &e);
		f->fake.lives = lives;
		for (uint32_t at = n; at < TEXT;) {
			int ret = forward(f, at, &n, &e);

			if (!ret) {
				at += n;
				continue;
			}
			assert_int_equal(ret, -ERR_DEVICE_LOST);
			assert_ok(reattach(f->s, &e), &e);
			lost++;
		}
		check_same(f, "swap after a loss");
		f->fake.lives = 0;
		close_text(f);
	}
	assert_true(lost >= 5);
}

/* ---- a real device ------------------------------------------------------- */

/* Prepare a session of six equal layers with more than 32 MiB of weights. */
static void open_large(struct fixture *f)
{
	pair_need();
	f->opts.npu = NULL;
	f->opts.precision = WIRE_F16;
	f->opts.layout = LAYOUT_TILES;
	f->file.n_embd = 512;
	f->file.n_head = 8;
	f->file.head_dim = 64;
	f->file.n_ff = 1536;
	f->file.type = DTYPE_F16;
	f->model = model_file_open(&f->file);
}

static void test_pair(void **state)
{
	static const unsigned mib[] = { 16, 30, 48 };
	struct fixture *f = *state;
	uint32_t temporary = LAYERS;
	struct session_stats st;

	open_large(f);
	record(f, f->model);
	f->opts.coherence = COHERENCE_CHECK;
	for (unsigned i = 0; i < ARRAY_LEN(mib); i++) {
		f->opts.va_window = (uint64_t)mib[i] << 20;
		for (int p = 0; p < PLACEMENT_FIXED; p++) {
			f->opts.placement = p;
			f->opts.swap_poison = p == PLACEMENT_SWAP;
			run_text(f, f->model, &st);
			check_same(f, placement_names[p]);
			assert_int_equal(st.violations, 0);
			close_text(f);
			if (p != PLACEMENT_SWAP)
				continue;
			assert_true(st.temporary_blocks <= temporary);
			temporary = st.temporary_blocks;
		}
	}
	assert_int_equal(temporary, 0);
}

/* ---- the phone's time ---------------------------------------------------- */

/* A simulation in which each engine (CPU, NPU, copy engine) does one thing at a
 * time. */
struct simulation {
	uint64_t cpu, npu, engine, slot[2], stall;
	unsigned copies;
};

static void simulate_pass(struct simulation *m, const bool *temporary,
	uint64_t copy, uint64_t first, uint64_t next)
{
	for (unsigned l = 0; l < LAYERS; l++) {
		uint64_t could = m->npu > m->cpu ? m->npu : m->cpu;
		uint64_t *slot = &m->slot[m->copies % 2];

		if (temporary[l]) {
			m->engine = m->engine > *slot ? m->engine : *slot;
			m->engine += copy;
			m->copies++;
			m->cpu = m->cpu > m->engine ? m->cpu : m->engine;
		}
		m->npu = m->npu > m->cpu ? m->npu : m->cpu;
		m->stall += m->npu - could;
		m->npu += l ? next : first;
		if (temporary[l])
			*slot = m->npu;
	}
	m->cpu = m->npu;
}

/* Phone time of a pass of one row. The row is not accepted, so all passes are
 * equal. */
static uint64_t phone_pass(struct fixture *f)
{
	uint64_t before = session_phone_ps(f->s);
	struct err e = { 0 };

	assert_ok(session_continue(f->s, SESSION_TEXT, f->token, 1, &e), &e);
	return session_phone_ps(f->s) - before;
}

/* Phone time of a pass of a model whose layers are all in memory. Each layer is
 * a block. */
static uint64_t resident_pass(struct fixture *f, const struct model *m)
{
	uint64_t ps;

	pair_open(&f->s, m, &f->opts);
	ps = phone_pass(f);
	assert_int_equal(phone_pass(f), ps);
	pair_close(&f->s);
	return ps;
}

static void check_timeline(struct fixture *f, uint64_t first, uint64_t next)
{
	struct simulation m = { 0 };
	struct session_stats st;
	bool temporary[LAYERS];
	struct price copy;

	pair_open(&f->s, f->model, &f->opts);
	price_cpu(&f->soc, 2ull * f->s->block[0].bytes, 0, &copy);
	for (unsigned i = 0; i < LAYERS; i++)
		temporary[i] = f->s->swapping.plan.place[i].temporary;
	for (unsigned i = 0; i < 6; i++) {
		phone_pass(f);
		simulate_pass(&m, temporary, copy.total_ps, first, next);
		session_stats(f->s, &st);
		assert_int_equal(session_phone_ps(f->s), m.cpu);
		assert_int_equal(st.stall_ps, m.stall);
	}
	pair_close(&f->s);
}

/* Total waiting time of the passes 5 to 8 of a new session with this placement
 * policy. */
static uint64_t stall_of(struct fixture *f, enum placement_policy policy)
{
	struct session_stats before, after;

	f->opts.placement = policy;
	pair_open(&f->s, f->model, &f->opts);
	for (unsigned i = 0; i < 4; i++)
		phone_pass(f);
	session_stats(f->s, &before);
	for (unsigned i = 0; i < 4; i++)
		phone_pass(f);
	session_stats(f->s, &after);
	pair_close(&f->s);
	return after.stall_ps - before.stall_ps;
}

/* Measure the phone times of the layers of a pass: *first of the first layer,
 * and *next of each of the later layers, which take equally long. */
static void measure_layers(struct fixture *f, uint64_t *first, uint64_t *next)
{
	struct model_file shorter;
	struct model *m;
	uint64_t whole;
	struct err e = { 0 };

	open_large(f);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	whole = resident_pass(f, f->model);
	shorter = f->file;
	shorter.n_layer--;
	m = model_file_open(&shorter);
	*next = whole - resident_pass(f, m);
	model_close(m);
	*first = whole - (LAYERS - 1) * *next;
}

/* A copy takes about as long as a layer, so that passes sometimes wait for the
 * copy engine and sometimes for a slot. */
static void test_timelines(void **state)
{
	static const double layers[] = { .8, 1.05, 1.15, 1.3 };
	struct fixture *f = *state;
	uint64_t first, next, bytes;

	measure_layers(f, &first, &next);
	pair_open(&f->s, f->model, &f->opts);
	bytes = f->s->block[0].bytes;
	pair_close(&f->s);
	f->opts.placement = PLACEMENT_SWAP;
	for (unsigned i = 0; i < ARRAY_LEN(layers); i++) {
		f->soc.cpu_bytes_per_s =
			2e12 * (double)bytes / (layers[i] * (double)next);
		/* Unless all tests were requested, each copy speed is tested
		 * with every second window, and each window with two copy
		 * speeds. */
		unsigned step = harness_full() ? 6 : 12;

		for (unsigned mib = 16 + i % 2 * (step - 6); mib < 36;
			mib += step) {
			f->opts.va_window = (uint64_t)mib << 20;
			check_timeline(f, first, next);
		}
	}
}

static void test_phone(void **state)
{
	static const unsigned mib[] = { 16, 30, 48 };
	struct fixture *f = *state;
	uint64_t first, next, last = UINT64_MAX;

	measure_layers(f, &first, &next);
	for (unsigned i = 0; i < ARRAY_LEN(mib); i++) {
		uint64_t stall;

		f->opts.va_window = (uint64_t)mib[i] << 20;
		f->opts.placement = PLACEMENT_SWAP;
		check_timeline(f, first, next);
		stall = stall_of(f, PLACEMENT_SWAP);
		assert_true(stall <= last);
		assert_true(stall <= stall_of(f, PLACEMENT_BELADY));
		assert_true(stall <= stall_of(f, PLACEMENT_PAGING));
		assert_true(stall <= stall_of(f, PLACEMENT_DROP_ALL));
		if (!i)
			assert_true(stall > 0);
		last = stall;
	}
	assert_int_equal(last, 0);
}

/* ---- refused combinations ------------------------------------------------ */

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	f->opts.placement = PLACEMENT_SWAP;
	f->opts.graph_switch = SWITCH_SYNC;
	f->opts.graph_rows = 4;
	assert_int_equal(open_on(f, f->model, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--placement swap"));
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_every_window),
	TEST(test_other_placements),
	TEST(test_cut_by_layer),
	TEST(test_beside_flash),
	TEST(test_lost),
	TEST(test_pair),
	TEST(test_timelines),
	TEST(test_phone),
	TEST(test_refused),
};

TEST_FILE(tests)
