/* Generates texts by methods on a real device process, so that tests can
 * compare the texts. A writer has a target model, draft models, a prompt from
 * the random seed, and the conditions that end a text. */
#ifndef TESTS_HOST_METHOD_TEXT_WRITER_H
#define TESTS_HOST_METHOD_TEXT_WRITER_H

#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "host/scheduler/method.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"
#include "tests/host/text/vocab_file.h"

#include <string.h>

#define N_VOCAB  274 /* size of the vocabulary vocab_spm */
#define N_PROMPT 12
#define MOST     256 /* maximum tokens of a text */

/* draft models: equal to the target, 4-bit copy, unrelated weights */
enum { SAME, COARSE, STRANGER, N_DRAFTS };

struct text {
	int32_t token[MOST]; /* prompt and generated tokens */
	size_t n;
	enum gen_stop stop;
	struct method_stats stats;
};

struct writer {
	struct model *model[N_DRAFTS];
	struct session_opts opts;
	struct session *s;
	struct tokenizer *tok;
	/* Options of the texts that are generated next. */
	struct sampler_opts sampling;
	uint32_t n_predict;
	const char *stop;
};

static inline void writer_init(
	struct writer *w, uint32_t decode_rows, uint32_t n_predict)
{
	w->opts = session_defaults;
	w->opts.threads = 1;
	w->opts.spin_us = 50; /* short, as tests have few CPUs */
	w->opts.prefill_chunk = 16;
	w->opts.decode_rows = decode_rows;
	/* The draft model computes in float32; the target does too, so that
	 * SAME equals the target. */
	w->opts.precision = WIRE_F32;
	w->sampling = sampler_defaults;
	w->sampling.temperature = 0;
	w->n_predict = n_predict;
}

static inline void writer_release(struct writer *w)
{
	session_close(w->s, NULL);
	tokenizer_close(w->tok);
	for (int i = 0; i < N_DRAFTS; i++)
		model_close(w->model[i]);
}

/* Open the target and the draft models: the target itself; the same model with
 * 4 bits per weight, which agrees with the target sometimes; and a model with
 * other weights, which agrees only by chance. */
static inline void writer_open_models(struct writer *w, uint32_t n_layer)
{
	struct model_file file = model_file_tiny;

	if (!w->opts.npu)
		pair_need();
	file.n_vocab = N_VOCAB;
	file.n_layer = n_layer;
	w->model[SAME] = model_file_open(&file);
	file.type = DTYPE_Q4_0;
	w->model[COARSE] = model_file_open(&file);
	file.type = DTYPE_F16;
	file.n_layer = 1;
	file.n_ff = 96;
	file.tied = true;
	w->model[STRANGER] = model_file_open(&file);
}

/* A tokenizer in which `eos` ends a text. */
static inline void writer_open_tokenizer(struct writer *w, uint32_t eos)
{
	static struct vocab v;
	struct vocab_file keys = { 0 };
	struct strbuf file = STRBUF_INIT;
	struct gguf *gguf;
	struct err e = { 0 };

	v = (struct vocab){ 0 };
	vocab_spm(&v);
	vocab_keys(&keys, &v);
	vocab_u32(&keys, "tokenizer.ggml.eos_token_id", eos);
	vocab_finish(&keys, &file);
	assert_ok(gguf_parse(&gguf, file.data, file.len, &e), &e);
	assert_ok(tokenizer_open(&w->tok, gguf, &e), &e);
	assert_int_equal(tokenizer_n_vocab(w->tok), N_VOCAB);
	gguf_close(gguf);
	strbuf_release(&file);
}

static inline void write_prompt(int32_t prompt[N_PROMPT])
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t seed;

	seed = seed ? seed : harness_seed();
	for (uint64_t i = 0; i < N_PROMPT; i++)
		prompt[i] = (int32_t)(rng_uniform(seed, 1, i) * N_VOCAB);
}

static inline struct generation *writer_begin(
	const struct writer *w, struct sampler *sampler)
{
	const struct generation_opts o = {
		.tokenizer = w->tok,
		.sampler = sampler,
		.n_vocab = N_VOCAB,
		.n_predict = w->n_predict,
		.context = session_context(w->s),
		.stop = &w->stop,
		.n_stop = w->stop ? 1 : 0,
	};
	int32_t prompt[N_PROMPT];
	struct generation *g;
	struct err e = { 0 };

	write_prompt(prompt);
	assert_ok(generation_open(&g, &o, prompt, N_PROMPT, &e), &e);
	return g;
}

/* Generate a text from an empty cache. */
static inline void writer_write(struct writer *w, const struct method *m,
	struct method_env *env, struct text *out)
{
	struct sampler *sampler;
	struct generation *g;
	struct err e = { 0 };
	const int32_t *token;

	assert_ok(sampler_open(&sampler, &w->sampling, N_VOCAB, &e), &e);
	g = writer_begin(w, sampler);
	session_truncate(w->s, SESSION_TEXT, 0);
	env->method = m;
	assert_ok(method_run(w->s, g, env, &e), &e);
	token = gen_tokens(g, &out->n);
	assert_in_range(out->n, N_PROMPT, MOST);
	memcpy(out->token, token, out->n * sizeof(*token));
	out->stop = gen_stop_reason(g);
	out->stats = env->stats;
	generation_close(g);
	sampler_close(sampler);
}

static inline void text_same(
	const struct text *got, const struct text *want, const char *what)
{
	for (size_t i = 0; i < got->n && i < want->n; i++)
		if (got->token[i] != want->token[i])
			fail_msg("%s: token %zu is %d, not %d", what, i,
				got->token[i], want->token[i]);
	if (got->n != want->n || got->stop != want->stop)
		fail_msg("%s: %zu tokens, stopped by %s, not %zu by %s", what,
			got->n, gen_stop_name(got->stop), want->n,
			gen_stop_name(want->stop));
}

/* The position of the first token that occurs nowhere before it in the text and
 * is at least `least` tokens after the prompt. */
static inline size_t text_new_token(const struct text *t, size_t least)
{
	for (size_t at = N_PROMPT + least; at < t->n; at++) {
		size_t i = 0;

		while (t->token[i] != t->token[at])
			i++;
		if (i == at)
			return at;
	}
	fail_msg("the text repeats itself from token %zu on", least);
	return 0;
}

#endif
