/*
 * Many samples on a real device process ($TANDEM_NPU; skipped if unset). The
 * texts equal those of plain decoding byte for byte, in every precision and
 * layout, at every coherence level, with one and two threads, and with and
 * without drafts. In another test, 64 samples of a long prompt run in a cache
 * that has no room for 64 copies of the prompt.
 */
#include "base/err.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/method/sampled_text.h"

#include <errno.h>

#define FEW 5 /* number of samples with each setting */

/* Compare the tokens of FEW samples, and the sums of their log-probabilities
 * and certainties, with those of samples that are generated one by one without
 * drafts, under the same settings. */
static void check_setting(struct sampled *f, const struct session_opts *o)
{
	double logprob[FEW], certainty[FEW];

	f->w.opts = *o;
	f->n = 1;
	f->parallel = 1;
	for (uint32_t i = 0; i < FEW; i++) {
		const struct sample *s;

		f->w.sampling.stream = i;
		open_many(f, 256);
		assert_ok(run_many(f, &method_sample), &f->e);
		s = samples_at(f->samples, 0);
		logprob[i] = s->logprob;
		certainty[i] = s->certainty;
		f->alone[i].n = gen_generated(s->gen) + N_PROMPT;
		f->alone[i].stop = s->stop;
		memcpy(f->alone[i].token, gen_tokens(s->gen, &(size_t){ 0 }),
			f->alone[i].n * sizeof(int32_t));
		close_many(f);
		pair_close(&f->w.s);
	}
	f->w.sampling.stream = 0;
	f->n = FEW;
	f->w.opts = *o;
	for (f->parallel = 2; f->parallel <= FEW; f->parallel += 3) {
		f->draft = f->parallel == FEW ? "pld+recycle" : NULL;
		open_many(f, 512);
		assert_ok(run_many(f, &method_sample), &f->e);
		same_samples(f);
		for (uint32_t i = 0; i < FEW; i++) {
			const struct sample *s = samples_at(f->samples, i);

			assert_true(s->logprob == logprob[i]);
			assert_true(s->certainty == certainty[i]);
		}
		close_many(f);
		pair_close(&f->w.s);
	}
	f->draft = NULL;
}

static void open_tiny(struct sampled *f)
{
	writer_open_models(&f->w, 2);
	f->w.n_predict = 25;
}

static void test_precisions_and_layouts(void **state)
{
	struct sampled *f = *state;

	open_tiny(f);
	for (enum wire_precision p = 0; p < WIRE_PRECISION_COUNT; p++)
		for (unsigned l = 0; layout_names[l]; l++) {
			struct session_opts o = f->w.opts;

			o.precision = p;
			o.layout = (enum layout)l;
			o.threads = 1 + (p + l) % 2;
			check_setting(f, &o);
		}
}

static void test_coherence(void **state)
{
	struct sampled *f = *state;

	open_tiny(f);
	for (unsigned c = 0; coherence_names[c]; c++)
		for (uint32_t threads = 1; threads <= 2; threads++) {
			struct session_opts o = f->w.opts;

			o.precision = WIRE_INT8;
			o.coherence = (enum coherence)c;
			o.threads = threads;
			check_setting(f, &o);
		}
}

/* With each of the settings, samples equal plain decoding with the same random
 * streams. */
static void test_samples_equal_plain_decoding(void **state)
{
	struct sampled *f = *state;

	writer_open_models(&f->w, 2);
	open_alone(f);
	open_many(f, 1024);
	check_many(f);
	pair_close(&f->w.s);
}

/* ---- a long prompt ------------------------------------------------------- */

#define LONG   900
#define COPIES 64
#define TAIL   12

static void long_prompt(int32_t *token)
{
	for (uint64_t i = 0; i < LONG; i++)
		token[i] = (int32_t)(rng_uniform(5, 1, i) * N_VOCAB);
}

static struct generation *begin_long(struct sampled *f)
{
	int32_t prompt[LONG];
	const struct generation_opts o = { .sampler = f->sampler,
		.n_vocab = N_VOCAB,
		.n_predict = TAIL,
		.context = session_context(f->w.s) };
	struct generation *g;
	struct err e = { 0 };

	long_prompt(prompt);
	assert_ok(generation_open(&g, &o, prompt, LONG, &e), &e);
	return g;
}

static void test_long_prompt(void **state)
{
	struct sampled *f = *state;
	struct samples_stats st;
	struct err e = { 0 };

	writer_open_models(&f->w, 2);
	f->w.opts.context = LONG + TAIL + 8;
	f->w.opts.prefill_chunk = 128;
	f->n = COPIES;
	/* Slots for the prompt and for one tail per sample, where the tail
	 * begins within a run. This is a twentieth of the slots that 64 copies
	 * of the prompt would need. */
	open_many(f, 928 + COPIES * 32);
	set_option_number(&f->options, "samples", COPIES);
	set_option_number(&f->options, "parallel", COPIES);
	f->env.options = &f->options;
	assert_ok(
		method_open(&f->env, &method_sample, f->w.model[SAME], &e), &e);
	assert_ok(sampler_open(&f->sampler, &f->w.sampling, N_VOCAB, &e), &e);
	f->gen = begin_long(f);
	assert_ok(samples_open(&f->samples, &f->env, f->gen, &e), &e);
	assert_ok(samples_run_alone(
			  f->samples, &f->env, f->gen, f->w.s, NULL, &e),
		&e);
	samples_stats(f->samples, &st);
	assert_int_equal(samples_in(f->samples, LANE_ENDED), COPIES);
	assert_int_equal(st.tokens, COPIES * TAIL);
	assert_int_equal(st.passes, TAIL - 1);
	assert_int_equal(st.pauses, 0);
	close_many(f);
}

static void test_copies_of_long_prompt_do_not_fit(void **state)
{
	struct sampled *f = *state;
	int32_t prompt[LONG];
	uint32_t id, row, held = 1;
	struct err e = { 0 };
	int ret;

	writer_open_models(&f->w, 2);
	f->w.opts.context = LONG + TAIL + 8;
	f->n = COPIES;
	open_many(f, 928 + COPIES * 32);
	long_prompt(prompt);
	ret = session_prefill(
		f->w.s, SESSION_TEXT, prompt, LONG, NULL, &row, &e);
	while (!ret) {
		assert_ok(session_add(f->w.s, &id, &e), &e);
		ret = session_prefill(f->w.s, id, prompt, LONG, NULL, &row, &e);
		held += !ret;
	}
	assert_int_equal(ret, -ENOSPC);
	assert_int_equal(held, 3);
}

#define TEST(x) \
	cmocka_unit_test_setup_teardown(x, sampled_setup, sampled_teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_precisions_and_layouts),
	TEST(test_coherence),
	TEST(test_samples_equal_plain_decoding),
	TEST(test_long_prompt),
	TEST(test_copies_of_long_prompt_do_not_fit),
};

TEST_FILE(tests)
