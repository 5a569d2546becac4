/*
 * Tests the method block from weights to tokens. The method generates a text
 * block by block, and each pass fills masks of one block. The text is compared
 * with that of the naive decoder (naive_llada.h), which recomputes the whole
 * text in each pass with an explicit attention mask. The cached keys and values
 * of a block are compared with those of the same text computed in one pass.
 * Texts with different device settings are compared with each other. The tests
 * use a real device process ($TANDEM_NPU; skipped if unset) and a fake device.
 */
#include "base/err.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/session/session_impl.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "tests/harness.h"
#include "tests/host/method/set_option.h"
#include "tests/host/method/naive_llada.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/npu/fake_device.h"
#include "tests/host/session/pair.h"

#include <errno.h>

#define MASK    95
#define LENGTH  32 /* length of a block */
#define CONTEXT 128
#define SLOTS   (LENGTH + CONTEXT)

struct fixture {
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct sampler_opts sampling;
	struct opt_values options;
	struct method_env env;
	uint32_t steps, n_prompt, n_predict;
	int32_t prompt[CONTEXT];
	/* State and text of the last run. */
	struct session *s;
	int32_t text[CONTEXT];
	size_t n;
	enum gen_stop stop;
};

static void put_keys(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", MASK);
	gguf_put_u32(w, "diffusion.block_length", LENGTH);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t seed = harness_seed();

	f->file = model_file_tiny;
	f->file.arch = "llada";
	f->file.keys = put_keys;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.context = CONTEXT;
	f->sampling = sampler_defaults;
	f->env.options = &f->options;
	f->n_prompt = 9;
	f->n_predict = 70;
	for (unsigned i = 0; i < CONTEXT; i++)
		f->prompt[i] = (int32_t)(rng_uniform(seed, 7, i) * MASK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	method_close(&f->env);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_pair(struct fixture *f)
{
	struct err e = { 0 };

	if (!f->model)
		f->model = model_file_open(&f->file);
	if (!f->env.method)
		assert_ok(
			method_open(&f->env, &method_block, f->model, &e), &e);
	f->opts.decode_rows = method_block.decode_rows(&f->env);
	pair_open(&f->s, f->model, &f->opts);
}

/* Generate one text on a device that is opened for this text. The device stays
 * open. */
static void write_text(struct fixture *f, struct session_stats *st)
{
	struct generation_opts o = { .n_vocab = f->file.n_vocab,
		.n_predict = f->n_predict,
		.context = CONTEXT };
	struct generation *g;
	struct sampler *sampler;
	const int32_t *text;
	struct err e = { 0 };

	open_pair(f);
	assert_ok(sampler_open(&sampler, &f->sampling, o.n_vocab, &e), &e);
	o.sampler = sampler;
	assert_ok(generation_open(&g, &o, f->prompt, f->n_prompt, &e), &e);
	set_option_number(&f->options, "block-steps", f->steps);
	assert_ok(method_run(f->s, g, &f->env, &e), &e);
	text = gen_tokens(g, &f->n);
	memcpy(f->text, text, f->n * sizeof(*text));
	f->stop = gen_stop_reason(g);
	session_stats(f->s, st);
	generation_close(g);
	sampler_close(sampler);
}

/* Generate a text and close the device, which fails on coherence violations
 * (missing cache maintenance). */
static void run(struct fixture *f, struct session_stats *st)
{
	write_text(f, st);
	pair_close(&f->s);
}

/* ---- against the naive decoder ------------------------------------------- */

/* Whether row i attends to position j. Rows of the prompt attend to earlier
 * rows and themselves; all other rows also attend to their whole block. */
static bool sees(const struct fixture *f, unsigned i, unsigned j)
{
	unsigned p = f->n_prompt;

	return j <= i ||
		(i >= p && j >= p && (i - p) / LENGTH == (j - p) / LENGTH);
}

static void naive_logits(void *arg, const int32_t *x, unsigned n, double *out)
{
	static unsigned position[CONTEXT];
	static uint8_t visibility[CONTEXT * CONTEXT];
	const struct fixture *f = arg;

	for (unsigned i = 0; i < n; i++) {
		position[i] = i;
		for (unsigned j = 0; j < n; j++)
			visibility[i * n + j] = sees(f, i, j);
	}
	ref_logits_seen(
		f->model->gguf, &f->file, x, position, visibility, n, out);
}

/* Check that the text equals that of the naive decoder. Returns false if they
 * may differ because a choice was within rounding error. */
static bool check_reference(struct fixture *f)
{
	struct naive v = { .logits = naive_logits,
		.arg = f,
		.n_vocab = f->file.n_vocab,
		.block = LENGTH,
		.steps = f->steps,
		.mask = MASK,
		.temperature = f->sampling.temperature,
		.seed = f->sampling.seed,
		.stream = f->sampling.stream };
	unsigned n = f->n_prompt, limit = n + f->n_predict, passes, blocks;
	unsigned chunk = f->opts.prefill_chunk;
	int32_t want[CONTEXT];
	struct session_stats st;

	limit = limit < CONTEXT ? limit : CONTEXT;
	blocks = (limit - n + LENGTH - 1) / LENGTH;
	run(f, &st);
	v.shift = f->model->shift_logits;
	memcpy(want, f->prompt, f->n_prompt * sizeof(*want));
	passes = naive_decode(&v, want, &n, limit, CONTEXT, -1);
	/* The decode passes are those of the naive decoder and, for each block
	 * but the last, one pass that stores the finished block in the cache.
	 * The passes of the prompt are counted separately. */
	assert_int_equal(st.prompt_rows.passes, (f->n_prompt - 1) / chunk + 1);
	assert_int_equal(st.decode_rows.passes, passes + blocks - 1);
	assert_int_equal(f->n, n);
	print_message("prompt %u, %u tokens, %u passes: least margin %g\n",
		f->n_prompt, f->n_predict, passes, v.margin);
	if (v.margin < 2e-5)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (f->text[i] != want[i])
			fail_msg("token %u is %d, not %d", i, f->text[i],
				want[i]);
	return true;
}

/* Compare texts for prompts and answers whose lengths are multiples of the
 * block's length or not, with several numbers of steps, and with noise. */
static void check_definition(struct fixture *f)
{
	static const struct {
		uint32_t n_prompt, n_predict, steps;
		double temperature;
	} want[] = { { 9, 1, 0, 0 }, { 9, 31, 0, 0 }, { 1, 32, 0, 0 },
		{ 33, 33, 0, 0 }, { 31, 64, 0, 0 }, { 32, 64, 5, 0 },
		{ 9, 70, 1, 0 }, { 40, 50, 11, .8 }, { 9, 40, 0, .8 },
		{ 45, 1000, 3, 0 } };
	unsigned decided = 0;

	f->opts.precision = WIRE_F32;
	for (unsigned i = 0; i < 10; i++) {
		f->n_prompt = want[i].n_prompt;
		f->n_predict = want[i].n_predict;
		f->steps = want[i].steps;
		f->sampling.temperature = want[i].temperature;
		f->opts.threads = 1 + i % 2;
		f->opts.prefill_chunk = i % 3 ? 128 : 7;
		decided += check_reference(f);
	}
	assert_in_range(decided, 5, 10);
}

static void put_shifted_keys(struct gguf_writer *w)
{
	put_keys(w);
	gguf_put_bool(w, "diffusion.shift_logits", true);
}

/* The model's rows predict the next position (shifted logits). */
static void test_matches_shifted_definition(void **state)
{
	struct fixture *f = *state;

	f->file.keys = put_shifted_keys;
	check_definition(f);
}

static void test_matches_definition(void **state)
{
	struct fixture *f = *state;

	f->opts.coherence = COHERENCE_STRICT;
	check_definition(f);
}

/* The comparison with the naive decoder, on a fake device. */
static void test_matches_on_fake_device(void **state)
{
	struct fixture *f = *state;
	struct fake fake;

	fake_init(&fake);
	f->opts.npu = &fake.ops;
	f->opts.layout = LAYOUT_ROWS;
	check_definition(f);
	assert_true(fake.answered > 0);
}

/* The context ends within a block, which becomes shorter. */
static void test_stops_at_full_context(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	f->n_predict = 1000;
	f->steps = 2;
	run(f, &st);
	assert_int_equal(f->n, CONTEXT);
	assert_int_equal(f->stop, GEN_STOP_CONTEXT);
	/* Blocks begin at 9, 41, 73 and 105; the last one has 23 positions. */
	assert_int_equal(st.decode_rows.rows, 3 * 3 * LENGTH + 2 * 23);
}

/* ---- the cache ----------------------------------------------------------- */

/* Returns the keys and values of the text's first n positions in all layers,
 * and their size in *bytes. The caller frees them. */
static uint8_t *read_cache(const struct fixture *f, uint32_t n, size_t *bytes)
{
	size_t half = n * f->s->plan.kv_stride;
	uint8_t *all, *to;
	struct err e = { 0 };

	*bytes = 2 * f->model->n_layer * half;
	to = all = malloc(*bytes);
	assert_non_null(all);
	for (uint32_t i = 0; i < 2 * f->model->n_layer; i++, to += half)
		assert_ok(sequence_read(f->s->sequences, SESSION_TEXT, i / 2,
				  i % 2 ? KV_VALUES : KV_KEYS, 0, n, to, &e),
			&e);
	return all;
}

/* Fill in rows [from, from + n) of the text. Positions from `written` on are
 * masks. */
static void text_rows(const struct fixture *f, struct row *row, uint32_t from,
	uint32_t n, uint32_t written)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = from + i, end = at + 1;

		while (end < from + n && sees(f, at, end))
			end++;
		row[i] = (struct row){ .token = at < written ? f->text[at]
							     : MASK,
			.position = at,
			.end = end };
	}
}

static void forward(struct fixture *f, uint32_t from, uint32_t n,
	uint32_t written, uint32_t logits_from, float *logits)
{
	static struct row row[SLOTS];
	const struct rows rows = { VISIBILITY_BLOCK, n, row };
	struct err e = { 0 };

	text_rows(f, row, from, n, written);
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
	assert_ok(session_logits(f->s, logits_from - from, LENGTH, logits, &e),
		&e);
}

/* The cached keys and values of finished blocks equal, byte for byte, those
 * that one pass over the whole text computes. The logits of the next block
 * equal those of this pass, too. */
static void check_kept(struct fixture *f)
{
	size_t bytes, row = f->file.n_vocab * sizeof(float);
	float *cached = malloc(LENGTH * row), *whole = malloc(LENGTH * row);
	uint32_t kept = f->n_prompt + 2 * LENGTH;
	struct session_stats st;
	uint8_t *first, *again;
	struct err e = { 0 };

	write_text(f, &st);
	assert_int_equal(session_length(f->s, SESSION_TEXT), kept);
	first = read_cache(f, kept, &bytes);
	forward(f, kept, LENGTH, kept, kept, cached);
	session_truncate(f->s, SESSION_TEXT, 0);
	forward(f, 0, kept + LENGTH, kept, kept, whole);
	assert_ok(session_accept(f->s, SESSION_TEXT, NULL, kept, &e), &e);
	again = read_cache(f, kept, &bytes);
	for (size_t i = 0; i < bytes; i++)
		if (first[i] != again[i])
			fail_msg("byte %zu of %zu of the cache is not what "
				 "it is computed at once",
				i, bytes);
	assert_memory_equal(cached, whole, LENGTH * row);
	free(first);
	free(again);
	free(cached);
	free(whole);
	pair_close(&f->s);
}

static void test_cache_equals_one_pass(void **state)
{
	static const enum wire_precision precision[] = { WIRE_F32, WIRE_INT8,
		WIRE_NPU };
	struct fixture *f = *state;

	f->file.type = DTYPE_Q8_0;
	f->steps = 3;
	for (unsigned i = 0; i < 3; i++) {
		f->opts.precision = precision[i];
		f->opts.threads = 1 + i % 2;
		check_kept(f);
	}
}

/* ---- other device settings ----------------------------------------------- */

static void test_settings_change_nothing(void **state)
{
	static const enum coherence level[] = { COHERENCE_OFF, COHERENCE_STRICT,
		COHERENCE_CHECK };
	static const uint32_t chunk[] = { 1, 7, 128 };
	struct fixture *f = *state;
	struct session_stats st;
	int32_t text[CONTEXT];
	uint64_t hash = 0;

	f->steps = 4;
	for (unsigned i = 0; i < 9; i++) {
		f->opts.coherence = level[i % 3];
		f->opts.threads = 1 + i / 3;
		f->opts.prefill_chunk = chunk[(i + i / 3) % 3];
		f->opts.va_window =
			i % 2 ? 16ull << 20 : session_defaults.va_window;
		run(f, &st);
		assert_int_equal(f->n, f->n_prompt + f->n_predict);
		assert_int_equal(f->stop, GEN_STOP_LENGTH);
		assert_int_equal(st.violations, 0);
		if (!hash) {
			hash = st.logits_hash;
			memcpy(text, f->text, sizeof(text));
		}
		assert_memory_equal(text, f->text, f->n * sizeof(*text));
		assert_true(st.logits_hash == hash);
	}
}

/* A text with a lower token limit is a prefix of the text with a higher
 * limit. */
static void test_shorter_answer_is_a_prefix(void **state)
{
	static const uint32_t n_predict[] = { 0, 1, 31, 32, 33, 64 };
	struct fixture *f = *state;
	struct session_stats st;
	int32_t text[CONTEXT];

	f->steps = 2;
	run(f, &st);
	memcpy(text, f->text, sizeof(text));
	for (unsigned i = 0; i < 6; i++) {
		f->n_predict = n_predict[i];
		run(f, &st);
		assert_int_equal(f->n, f->n_prompt + n_predict[i]);
		assert_memory_equal(text, f->text, f->n * sizeof(*text));
	}
}

/* Three blocks of 3 passes each, which commit 11, 11 and 10 tokens; two blocks
 * are cached. */
static void test_counters(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	f->steps = 3;
	run(f, &st);
	assert_int_equal(st.prompt_rows.rows, f->n_prompt);
	assert_int_equal(st.decode_rows.passes, 3 * 3 + 2);
	assert_int_equal(st.decode_rows.rows, LENGTH * (3 * 3 + 2));
	assert_int_equal(st.decode_rows.graph, LENGTH * (3 * 3 + 2));
	assert_int_equal(st.decode_rows.valid, LENGTH * (3 + 2));
	assert_int_equal(st.logits_rows, 3 * (32 + 21 + 10));
}

/* ---- options ------------------------------------------------------------- */

/* Blocks always have the length that the model was trained with, so another
 * length is refused. */
static void test_block_length_is_the_models(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	set_option_number(&f->options, "block", 16);
	assert_int_equal(
		method_open(&f->env, &method_block, f->model, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--block 16"));
	assert_non_null(strstr(e.text, "32"));
	method_close(&f->env);
	f->env.options = &f->options;
	set_option_number(&f->options, "block", LENGTH);
	assert_ok(method_open(&f->env, &method_block, f->model, &e), &e);
	assert_int_equal(method_block.decode_rows(&f->env), LENGTH);
}

static void test_method_is_listed(void **state)
{
	const struct method *m = method_find("block");

	assert_ptr_equal(m, &method_block);
	assert_true(m->diffusion);
	assert_int_equal(m->runs, METHOD_BLOCK);
	assert_false(m->lossless);
	assert_false(m->needs_draft);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_matches_definition),
	TEST(test_matches_shifted_definition),
	TEST(test_matches_on_fake_device),
	TEST(test_stops_at_full_context),
	TEST(test_cache_equals_one_pass),
	TEST(test_settings_change_nothing),
	TEST(test_shorter_answer_is_a_prefix),
	TEST(test_counters),
	TEST(test_block_length_is_the_models),
	cmocka_unit_test(test_method_is_listed),
};

TEST_FILE(tests)
