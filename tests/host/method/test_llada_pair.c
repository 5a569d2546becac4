/*
 * The method llada on a real device process ($TANDEM_NPU; skipped if unset),
 * from weights to tokens. It is compared with the naive decoder
 * (naive_llada.h), which gets its logits from a reference transformer
 * (reference_model.h), and texts with different device settings are compared
 * with each other. The comparison with the naive decoder also runs on a fake
 * device.
 */
#include "base/err.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "tests/harness.h"
#include "tests/host/method/set_option.h"
#include "tests/host/method/naive_llada.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/npu/fake_device.h"
#include "tests/host/session/pair.h"

#define MASK     95
#define N_PROMPT 9
#define N_TEXT   (N_PROMPT + 21)
#define CONTEXT  40

struct fixture {
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct sampler_opts sampling;
	struct opt_values options;
	struct method_env env;
	struct {
		uint32_t length, steps;
	} block;
	int32_t prompt[N_PROMPT];
	int32_t text[CONTEXT]; /* text of the last run */
	size_t n;
};

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", MASK);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t seed = harness_seed();

	f->file = model_file_tiny;
	f->file.arch = "llada";
	f->file.keys = put_mask;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.context = CONTEXT;
	f->opts.decode_rows = method_llada.decode_rows(&f->env);
	f->sampling = sampler_defaults;
	f->env.method = &method_llada;
	f->env.options = &f->options;
	f->block.length = 8;
	for (unsigned i = 0; i < N_PROMPT; i++)
		f->prompt[i] = (int32_t)(rng_uniform(seed, 7, i) * MASK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	model_close(f->model);
	free(f);
	return 0;
}

/* Generate one text on a device that is opened for this text. Closing the
 * device fails on coherence violations (missing cache maintenance). */
static void run(struct fixture *f, struct session_stats *st)
{
	struct generation_opts o = { .n_vocab = f->file.n_vocab,
		.n_predict = N_TEXT - N_PROMPT,
		.context = CONTEXT };
	struct session *s;
	struct generation *g;
	struct sampler *sampler;
	struct err e = { 0 };
	const int32_t *text;

	if (!f->model)
		f->model = model_file_open(&f->file);
	pair_open(&s, f->model, &f->opts);
	assert_ok(sampler_open(&sampler, &f->sampling, o.n_vocab, &e), &e);
	o.sampler = sampler;
	assert_ok(generation_open(&g, &o, f->prompt, N_PROMPT, &e), &e);
	set_option_number(&f->options, "block", f->block.length);
	set_option_number(&f->options, "block-steps", f->block.steps);
	assert_ok(method_run(s, g, &f->env, &e), &e);
	text = gen_tokens(g, &f->n);
	memcpy(f->text, text, f->n * sizeof(*text));
	session_stats(s, st);
	generation_close(g);
	sampler_close(sampler);
	pair_close(&s);
}

static void naive_logits(void *arg, const int32_t *x, unsigned n, double *out)
{
	const struct fixture *f = arg;

	ref_logits(f->model->gguf, &f->file, x, n, out);
}

/* Check that the text equals that of the naive decoder. Returns false if they
 * may differ because a choice was within rounding error. */
static bool check_reference(struct fixture *f)
{
	struct naive v = { .logits = naive_logits,
		.arg = f,
		.n_vocab = f->file.n_vocab,
		.block = f->block.length,
		.steps = f->block.steps,
		.mask = MASK,
		.temperature = f->sampling.temperature,
		.seed = f->sampling.seed,
		.stream = f->sampling.stream };
	int32_t want[CONTEXT];
	struct session_stats st;
	unsigned n = N_PROMPT, passes;

	run(f, &st);
	memcpy(want, f->prompt, sizeof(f->prompt));
	passes = naive_decode(&v, want, &n, N_TEXT, CONTEXT, -1);
	assert_int_equal(st.passes, passes);
	assert_int_equal(f->n, n);
	print_message("blocks of %u, %u passes: least margin %g\n", v.block,
		passes, v.margin);
	if (v.margin < 2e-5)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (f->text[i] != want[i])
			fail_msg("token %u is %d, not %d", i, f->text[i],
				want[i]);
	return true;
}

/* Compare with the naive decoder for several block lengths, steps and
 * temperatures. */
static void check_definition(struct fixture *f)
{
	static const struct {
		uint32_t length, steps;
		double temperature;
	} want[] = { { 1, 0, 0 }, { 5, 0, 0 }, { 8, 0, 0 }, { 8, 3, 0 },
		{ 8, 1, 0 }, { 21, 0, 0 }, { 32, 11, 0 }, { 8, 0, .8 },
		{ 32, 5, .8 } };
	unsigned decided = 0;

	f->opts.precision = WIRE_F32;
	for (unsigned i = 0; i < 9; i++) {
		f->block.length = want[i].length;
		f->block.steps = want[i].steps;
		f->sampling.temperature = want[i].temperature;
		decided += check_reference(f);
	}
	assert_in_range(decided, 5, 9);
}

static void test_matches_definition(void **state)
{
	check_definition(*state);
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

static void test_settings_change_nothing(void **state)
{
	static const enum coherence level[] = { COHERENCE_OFF, COHERENCE_STRICT,
		COHERENCE_CHECK };
	struct fixture *f = *state;
	struct session_stats st;
	int32_t text[CONTEXT];
	uint64_t hash = 0;

	f->block.steps = 3;
	for (unsigned c = 0; c < 3; c++) {
		for (unsigned threads = 1; threads <= 3; threads++) {
			f->opts.coherence = level[c];
			f->opts.threads = threads;
			f->opts.va_window = threads == 2
				? 16ull << 20
				: session_defaults.va_window;
			f->opts.prefill_chunk = threads == 3 ? 1 : 128;
			run(f, &st);
			assert_int_equal(f->n, N_TEXT);
			assert_int_equal(st.violations, 0);
			if (!hash) {
				hash = st.logits_hash;
				memcpy(text, f->text, sizeof(text));
			}
			assert_memory_equal(
				text, f->text, N_TEXT * sizeof(*text));
			assert_true(st.logits_hash == hash);
		}
	}
}

/* Three blocks of 8 tokens take 3 passes each, which commit 3, 3 and 2
 * tokens. */
static void test_counters(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	f->block.steps = 3;
	run(f, &st);
	assert_int_equal(st.passes, 9);
	assert_int_equal(st.rows, 3 * (3 * N_PROMPT + 8 + 16 + 24));
	assert_int_equal(st.logits_rows, 3 * (8 + 5 + 2));
}

static void test_method_is_listed(void **state)
{
	const struct method *m = method_find("llada");

	assert_ptr_equal(m, &method_llada);
	assert_true(m->diffusion);
	assert_false(m->lossless);
	assert_false(m->needs_draft);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_matches_definition),
	TEST(test_matches_on_fake_device),
	TEST(test_settings_change_nothing),
	TEST(test_counters),
	cmocka_unit_test(test_method_is_listed),
};

TEST_FILE(tests)
