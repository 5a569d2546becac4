/* Generates texts with small diffusion models of random weights, on a real
 * device process or on a fake device, so that tests can compare the texts.
 * Method options are given as a user gives them, "NAME=VALUE". */
#ifndef TESTS_HOST_METHOD_DIFFUSION_TEXT_H
#define TESTS_HOST_METHOD_DIFFUSION_TEXT_H

#include "base/err.h"
#include "base/rng.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "tests/harness.h"
#include "tests/host/method/set_option.h"
#include "tests/host/model/model_file.h"
#include "tests/host/npu/fake_device.h"
#include "tests/host/session/pair.h"

#include <string.h>

#define DT_MASK    95
#define DT_LENGTH  8 /* length of a block in models with blocks */
#define DT_CONTEXT 96
#define DT_OPTIONS 12

struct diffusion_text {
	int32_t token[DT_CONTEXT]; /* prompt and generated tokens */
	size_t n;
	enum gen_stop stop;
	struct method_stats stats;
	struct session_stats session;
	struct err e;
	int ret;
};

struct diffusion_writer {
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct sampler_opts sampling;
	struct fake fake;
	uint32_t n_prompt, n_predict;
	int32_t prompt[DT_CONTEXT];
};

static inline void dt_keys(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", DT_MASK);
}

static inline void dt_shifted_keys(struct gguf_writer *w)
{
	dt_keys(w);
	gguf_put_bool(w, "diffusion.shift_logits", true);
}

static inline void dt_block_keys(struct gguf_writer *w)
{
	dt_keys(w);
	gguf_put_u32(w, "diffusion.block_length", DT_LENGTH);
}

static inline void dt_shifted_block_keys(struct gguf_writer *w)
{
	dt_shifted_keys(w);
	gguf_put_u32(w, "diffusion.block_length", DT_LENGTH);
}

/* Initialize the writer. If `fake` is set it uses a fake device, which needs no
 * device program. */
static inline void dt_init(struct diffusion_writer *w, uint64_t seed, bool fake)
{
	w->file = model_file_tiny;
	w->file.arch = "llada";
	w->opts = session_defaults;
	w->opts.threads = 1;
	w->opts.spin_us = 50; /* short, as tests have few CPUs */
	w->opts.context = DT_CONTEXT;
	w->opts.precision = WIRE_F32;
	w->opts.smaller_graphs = w->opts.larger_graphs = true;
	w->sampling = sampler_defaults;
	w->sampling.temperature = 0;
	w->n_prompt = 9;
	w->n_predict = 40;
	for (unsigned i = 0; i < DT_CONTEXT; i++)
		w->prompt[i] = (int32_t)(rng_uniform(seed, 7, i) * DT_MASK);
	if (fake) {
		fake_init(&w->fake);
		w->opts.npu = &w->fake.ops;
		w->opts.layout = LAYOUT_ROWS;
	}
}

static inline void dt_model(
	struct diffusion_writer *w, void (*keys)(struct gguf_writer *))
{
	model_close(w->model);
	w->file.keys = keys;
	w->model = model_file_open(&w->file);
}

static inline void dt_set_option(struct opt_values *v, const char *option)
{
	char name[64];
	const char *eq = strchr(option, '=');

	if (!eq) {
		set_option(v, option, "true");
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(eq - option), option);
	set_option(v, name, eq + 1);
}

static inline void dt_run(const struct diffusion_writer *w, struct session *s,
	struct method_env *env, struct diffusion_text *out)
{
	struct generation_opts o = { .n_vocab = w->file.n_vocab,
		.n_predict = w->n_predict,
		.context = w->opts.context };
	struct generation *g;
	const int32_t *token;
	struct sampler *sampler;

	assert_ok(sampler_open(&sampler, &w->sampling, o.n_vocab, &out->e),
		&out->e);
	o.sampler = sampler;
	assert_ok(generation_open(&g, &o, w->prompt, w->n_prompt, &out->e),
		&out->e);
	out->ret = method_run(s, g, env, &out->e);
	token = gen_tokens(g, &out->n);
	memcpy(out->token, token, out->n * sizeof(*token));
	out->stop = gen_stop_reason(g);
	out->stats = env->stats;
	session_stats(s, &out->session);
	generation_close(g);
	sampler_close(sampler);
}

/* Generate one text on a device that is opened for this text. Closing the
 * device fails on coherence violations (missing cache maintenance). */
static inline void dt_try(struct diffusion_writer *w, const char *method,
	const char *const *option, struct diffusion_text *out)
{
	struct opt_values options = { 0 };
	struct method_env env = { .options = &options };
	struct session_opts opts = w->opts;
	struct session *s;

	*out = (struct diffusion_text){ 0 };
	while (option && *option)
		dt_set_option(&options, *option++);
	out->ret = method_open(&env, method_find(method), w->model, &out->e);
	if (!out->ret) {
		opts.decode_rows = env.method->decode_rows(&env);
		pair_open(&s, w->model, &opts);
		dt_run(w, s, &env, out);
		pair_close(&s);
	}
	method_close(&env);
}

#define DT_WRITE(w, out, method, ...) \
	dt_write(w, method,           \
		(const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL }, out)

static inline void dt_write(struct diffusion_writer *w, const char *method,
	const char *const *option, struct diffusion_text *out)
{
	dt_try(w, method, option, out);
	assert_ok(out->ret, &out->e);
	assert_int_equal(out->session.violations, 0);
}

static inline void dt_same(
	const struct diffusion_text *a, const struct diffusion_text *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		if (a->token[i] != b->token[i])
			fail_msg("token %zu is %d, not %d", i, a->token[i],
				b->token[i]);
	assert_int_equal(a->stop, b->stop);
}

#endif
