/*
 * Samples of one prompt in one pass, on a real device process ($TANDEM_NPU;
 * skipped if unset). The common prefix is read once for all samples and counted
 * once in phone time (simulated time). With option attend_apart it is read for
 * each sample, and the results have the same bits. A session that only
 * estimates phone time (idle) takes the same phone time as a session that
 * computes.
 */
#include "base/err.h"
#include "host/model/shapes.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"
#include "tensor/soc/soc.h"

#define PROMPT 150
/* Of the PROMPT tokens, the first BLOCKS fill whole attention blocks and whole
 * runs of cache slots. */
#define BLOCKS  128
#define SAMPLES 9
#define STEPS   4

/* Compute a pass with one row of each sample, with different tokens. */
static void step(struct fixture *f, unsigned at)
{
	struct row row[SAMPLES];
	const struct rows rows = { VISIBILITY_TREE, SAMPLES, row };
	static float logits[SAMPLES * 256];
	int32_t token[SAMPLES];
	struct err e = { 0 };

	tokens(f, 100 + at, token, SAMPLES);
	for (uint32_t i = 0; i < SAMPLES; i++)
		row[i] = (struct row){ token[i], session_length(f->s, i), i,
			{ .parent = -1 } };
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
	assert_ok(session_logits(f->s, 0, SAMPLES, logits, &e), &e);
	for (uint32_t i = 0; i < SAMPLES; i++)
		assert_ok(session_accept(f->s, i, &i, 1, &e), &e);
}

/* Statistics of STEPS passes after a prompt, without those of the prompt. */
static struct session_stats decode(struct fixture *f, bool apart)
{
	struct session_stats before, st;
	int32_t prompt[PROMPT];
	struct err e = { 0 };
	uint32_t id;

	f->opts.attend_apart = apart;
	open_session(f);
	tokens(f, 1, prompt, PROMPT);
	prefill(f, prompt, PROMPT);
	for (unsigned i = 1; i < SAMPLES; i++)
		assert_ok(session_fork(f->s, SESSION_TEXT, &id, &e), &e);
	session_stats(f->s, &before);
	for (unsigned i = 0; i < STEPS; i++)
		step(f, i);
	session_stats(f->s, &st);
	session_stats_since(&st, &before);
	pair_close(&f->s);
	return st;
}

static void take(struct fixture *f, enum wire_precision precision)
{
	f->opts = session_defaults;
	f->opts.precision = precision;
	f->opts.threads = 1;
	f->opts.prefill_chunk = 32;
	f->opts.decode_rows = SAMPLES;
	f->opts.context = 256;
	f->opts.sequences = SAMPLES;
	f->opts.slots = 1024;
}

static void test_read_once(void **state)
{
	struct fixture *f = *state;

	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++) {
		uint64_t token, own = 0, apart;
		struct session_stats once, each;

		take(f, (enum wire_precision)p);
		open_session(f);
		token = 2ull * f->model->n_layer * f->file.n_kv_head *
			f->file.head_dim * wire_kv_elt(p);
		pair_close(&f->s);
		once = decode(f, false);
		each = decode(f, true);
		for (unsigned i = 0; i < STEPS; i++)
			own += SAMPLES * (PROMPT - BLOCKS + i + 1);
		apart = STEPS * SAMPLES * BLOCKS + own;
		assert_int_equal(once.logits_hash, each.logits_hash);
		assert_int_equal(once.mixed_passes, STEPS);
		assert_int_equal(once.kv_apart_bytes, apart * token);
		assert_int_equal(each.kv_apart_bytes, apart * token);
		assert_int_equal(each.kv_read_bytes, apart * token);
		if (strcmp(once.kern, "ref"))
			assert_int_equal(once.kv_read_bytes,
				(STEPS * BLOCKS + own) * token);
	}
}

/* Without attend_apart, the prefix that the samples share is counted once, so
 * the phone reads and computes less than with attend_apart. The bytes read by
 * DMA are the same. The device computes the price of the running model, and the
 * host that of another shape. */
static void test_paid_once(void **state)
{
	struct fixture *f = *state;
	struct session_stats once, each;
	struct err e = { 0 };
	struct soc soc;

	assert_ok(soc_file_load(&soc, "tensor/soc/sd8gen3.soc", &e), &e);
	for (unsigned as = 0; as < 2; as++) {
		take(f, WIRE_NPU);
		f->opts.soc = &soc;
		f->opts.as = as ? shape_named("qwen2.5-1.5b") : NULL;
		once = decode(f, false);
		each = decode(f, true);
		assert_int_equal(once.logits_hash, each.logits_hash);
		assert_true(2 * once.price.counts.read_bytes <
			each.price.counts.read_bytes);
		assert_true(once.price.counts.matrix_tiles <
			each.price.counts.matrix_tiles);
		assert_true(once.price.total_ps < each.price.total_ps);
		assert_int_equal(once.price.counts.dma_bytes,
			each.price.counts.dma_bytes);
	}
}

/* Check two prices: that of the running model, which the device computes, and
 * that of another shape (set of layer sizes), which the host computes. */
static void test_idle_takes_the_same(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	struct soc soc;

	assert_ok(soc_file_load(&soc, "tensor/soc/sd8gen3.soc", &e), &e);
	for (unsigned as = 0; as < 2; as++) {
		struct session_stats computed, idle;

		take(f, WIRE_INT8);
		f->opts.soc = &soc;
		f->opts.as = as ? &shapes[0] : NULL;
		computed = decode(f, false);
		f->opts.idle = true;
		idle = decode(f, false);
		assert_true(computed.price.total_ps > 0);
		assert_memory_equal(
			&idle.price, &computed.price, sizeof(idle.price));
		assert_int_equal(idle.kv_read_bytes, 0);
		assert_true(computed.kv_read_bytes > 0);
		assert_int_equal(idle.logits_rows, 0);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_read_once),
	TEST(test_paid_once),
	TEST(test_idle_takes_the_same),
};

TEST_FILE(tests)
