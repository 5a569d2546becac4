/* Common part of the tests of many samples. Each sample must equal, token for
 * token, the text that plain decoding generates in a separate session with the
 * same random numbers, whichever other samples share its passes. */
#ifndef TESTS_HOST_METHOD_SAMPLED_TEXT_H
#define TESTS_HOST_METHOD_SAMPLED_TEXT_H

#include "base/checked.h"
#include "host/draft/drafting.h"
#include "host/scheduler/samples.h"
#include "tests/host/method/samples_alone.h"
#include "tests/host/method/set_option.h"
#include "tests/host/method/text_writer.h"

#include <stdlib.h>

#define MANY 12 /* maximum number of samples */

struct sampled {
	struct writer w;
	struct text alone[MANY];
	/* end-of-text token; 0 means no tokenizer, so that only the length ends
	 * a text */
	uint32_t eos;
	/* Options of the samples that are generated next. */
	uint32_t n, parallel;
	const char *option[6][2]; /* further options: names and values */
	uint32_t spare; /* further sequences and rows, besides one per sample */
	struct samples_sink sink;
	const char *draft; /* NULL means no drafter */
	struct reward *reward;
	const struct samples_script *script;
	/* State of the last run; close_many frees this state. */
	struct opt_values options;
	struct method_env env;
	struct samples *samples;
	struct drafting drafting;
	struct method_stats stats; /* sum over all runs */
	struct sampler *sampler;
	struct generation *gen;
	struct err e;
};

static inline int sampled_setup(void **state)
{
	struct sampled *f = calloc(1, sizeof(*f));

	writer_init(&f->w, 1, 40);
	/* a short spin (busy wait), because test machines have few CPUs */
	f->w.opts.spin_us = 50;
	f->w.sampling.temperature = .9;
	f->n = MANY;
	f->parallel = 4;
	*state = f;
	return 0;
}

static inline int sampled_teardown(void **state)
{
	struct sampled *f = *state;

	writer_release(&f->w);
	free(f);
	return 0;
}

/* Generate the texts by plain decoding, one after another, each from an empty
 * cache. */
static inline void write_alone(struct sampled *f)
{
	struct method_env none = { 0 };

	for (uint32_t i = 0; i < MANY; i++) {
		f->w.sampling.stream = i;
		writer_write(
			&f->w, &method_autoregressive, &none, &f->alone[i]);
	}
	f->w.sampling.stream = 0;
}

/* Open a session for many samples. The session for one text must be closed. */
static inline void open_many(struct sampled *f, uint32_t slots)
{
	f->w.opts.sequences = 1 + f->n + f->spare;
	f->w.opts.decode_rows = f->n + f->spare;
	f->w.opts.smaller_graphs = true;
	f->w.opts.slots = slots;
	pair_open(&f->w.s, f->w.model[SAME], &f->w.opts);
}

/* Open a session for one text, generate the texts by plain decoding, and close
 * the session. */
static inline void open_alone(struct sampled *f)
{
	struct session_opts many = f->w.opts;

	f->w.opts.sequences = f->w.opts.decode_rows = 1;
	f->w.opts.slots = 0;
	f->w.opts.smaller_graphs = false;
	pair_open(&f->w.s, f->w.model[SAME], &f->w.opts);
	write_alone(f);
	pair_close(&f->w.s);
	f->w.opts = many;
}

/* Open the models and generate their texts by plain decoding. `eos` is a token
 * of one of the texts, so that some texts end by themselves. */
static inline void open_models(struct sampled *f)
{
	writer_open_models(&f->w, 2);
	open_alone(f);
	f->eos = (uint32_t)f->alone[MANY / 2].token[N_PROMPT + 20];
	writer_open_tokenizer(&f->w, f->eos);
	open_alone(f);
}

static inline void open_draft(struct sampled *f)
{
	struct err e = { 0 };

	if (!f->draft)
		return;
	set_option(&f->options, "draft", f->draft);
	set_option_number(&f->options, "tree-rows", 24);
	f->drafting = (struct drafting){ 0 };
	assert_ok(drafting_ask(&f->drafting, &f->options, &e), &e);
	assert_true(drafting_can_be_many(&f->drafting));
	assert_ok(drafting_open(&f->drafting, f->w.s, &f->w.opts, 24, &e), &e);
	f->env.drafter = &f->drafting.drafter;
	f->env.drafting = &f->drafting;
}

/* Generate many samples by a method. Returns what the method's run returns. The
 * caller closes the run with close_many. */
static inline int run_many(struct sampled *f, const struct method *m)
{
	struct err e = { 0 };
	int ret;

	f->options = (struct opt_values){ 0 };
	set_option_number(&f->options, "samples", f->n);
	set_option_number(&f->options, "parallel", f->parallel);
	for (unsigned i = 0; i < ARRAY_LEN(f->option) && f->option[i][0]; i++)
		set_option(&f->options, f->option[i][0], f->option[i][1]);
	f->env = (struct method_env){ .options = &f->options };
	assert_ok(method_open(&f->env, m, f->w.model[SAME], &e), &e);
	f->env.reward = f->reward;
	f->env.script = f->script;
	open_draft(f);
	assert_ok(sampler_open(&f->sampler, &f->w.sampling, N_VOCAB, &e), &e);
	f->gen = writer_begin(&f->w, f->sampler);
	session_truncate(f->w.s, SESSION_TEXT, 0);
	f->e = (struct err){ 0 };
	ret = samples_open(&f->samples, &f->env, f->gen, &f->e);
	return ret ? ret
		   : samples_run_alone(f->samples, &f->env, f->gen, f->w.s,
			     &f->sink, &f->e);
}

static inline void close_many(struct sampled *f)
{
	method_stats_add(&f->stats, &f->env.stats);
	samples_close(f->samples);
	method_close(&f->env);
	drafting_close(&f->drafting);
	generation_close(f->gen);
	sampler_close(f->sampler);
	f->samples = NULL;
	f->gen = NULL;
	f->sampler = NULL;
}

static inline void same_sample(const struct sampled *f, const struct sample *s)
{
	struct text got = { .stop = s->stop };
	const int32_t *token = gen_tokens(s->gen, &got.n);
	char what[64];

	assert_in_range(got.n, N_PROMPT, MOST);
	memcpy(got.token, token, got.n * sizeof(*token));
	snprintf(what, sizeof(what), "sample %u", s->index);
	assert_int_equal(s->stream, f->w.sampling.stream + s->index);
	assert_int_equal(s->n, got.n - N_PROMPT);
	text_same(&got, &f->alone[s->index], what);
}

/* All samples of the last run except failed ones equal the texts that were
 * generated alone. */
static inline void same_samples(const struct sampled *f)
{
	const struct samples *p = f->samples;

	assert_int_equal(samples_count(p), f->n);
	for (uint32_t i = 0; i < f->n; i++) {
		const struct sample *s = samples_at(p, i);

		if (s->lane.state == LANE_FAILED)
			continue;
		assert_string_equal(sample_state_name(s->lane.state), "ended");
		same_sample(f, s);
	}
}

static inline void check_many(struct sampled *f)
{
	assert_ok(run_many(f, &method_sample), &f->e);
	same_samples(f);
	close_many(f);
}

#endif
