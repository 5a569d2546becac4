/*
 * The methods llada and block with the bundled models. Each token must equal
 * that of the naive decoder (naive_llada.h), which computes the model in double
 * precision. In each pass of the naive decoder, the test also compares the
 * logits with those that a device process ($TANDEM_NPU; skipped if unset)
 * computes for the same tokens.
 */
#include "base/err.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/method/set_option.h"
#include "tests/host/method/naive_llada.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/session/pair.h"

#include <string.h>

#define CONTEXT 96
#define BOUND   1e-4 /* largest error of float32 logits */
/* Rounding may change which of two logits is larger, or which of two positions
 * has the larger log-odds, if the two values differ by less than this. */
#define MARGIN (4 * BOUND)

struct fixture {
	const char *name; /* name of the method */
	const char *path;
	const char *const *prompt; /* NULL-terminated */
	uint32_t block, steps, n_predict;
	struct model *model;
	struct tokenizer *tok;
	struct model_file file; /* shape of the model */
	struct session *s;
	struct opt_values options;
	struct method_env env;
	size_t n_prompt;
	int32_t text[CONTEXT];
	size_t n;
	double worst; /* largest difference between a logit and the reference */
	unsigned compared;
};

static void open_model(struct fixture *f)
{
	const struct model *m;
	struct err e = { 0 };

	assert_ok(model_open(&f->model, f->path, NULL, NULL, &e), &e);
	m = f->model;
	assert_ok(tokenizer_open(&f->tok, m->gguf, &e), &e);
	f->file = (struct model_file){ .arch = m->arch,
		.n_layer = m->n_layer,
		.n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_ff = m->n_ff,
		.n_vocab = m->n_vocab,
		.norm_eps = m->norm_eps };
}

static void open_pair(struct fixture *f)
{
	struct session_opts opts = session_defaults;
	struct err e = { 0 };

	f->env.options = &f->options;
	assert_ok(method_open(&f->env, method_find(f->name), f->model, &e), &e);
	if (!f->model->block_length)
		set_option_number(&f->options, "block", f->block);
	set_option_number(&f->options, "block-steps", f->steps);
	opts.context = CONTEXT;
	opts.precision = WIRE_F32;
	opts.decode_rows = f->env.method->decode_rows(&f->env);
	pair_open(&f->s, f->model, &opts);
}

/* ---- the program --------------------------------------------------------- */

static void write_text(struct fixture *f, const char *prompt)
{
	struct generation_opts o = { .tokenizer = f->tok,
		.n_vocab = f->model->n_vocab,
		.n_predict = f->n_predict,
		.context = CONTEXT };
	struct sampler_opts sampling = sampler_defaults;
	struct token_list ids = { 0 };
	const int32_t *text;
	struct generation *g;
	struct err e = { 0 };

	assert_ok(tokenize(f->tok, prompt, strlen(prompt), TOKENIZE_BOS, NULL,
			  0, &ids, &e),
		&e);
	sampling.temperature = 0;
	assert_ok(sampler_open(&o.sampler, &sampling, o.n_vocab, &e), &e);
	assert_ok(generation_open(&g, &o, ids.id, ids.n, &e), &e);
	session_truncate(f->s, SESSION_TEXT, 0);
	assert_ok(method_run(f->s, g, &f->env, &e), &e);
	text = gen_tokens(g, &f->n);
	memcpy(f->text, text, f->n * sizeof(*text));
	f->n_prompt = ids.n;
	generation_close(g);
	sampler_close(o.sampler);
	free(ids.id);
}

/* ---- logits for the naive decoder ---------------------------------------- */

/* The end of the positions that row i attends to. In a model with blocks, this
 * is i + 1 for a row of the prompt, and the end of the row's block for any
 * other row. In a model without blocks, it is n. */
static unsigned visibility_end(const struct fixture *f, unsigned i, unsigned n)
{
	unsigned p = (unsigned)f->n_prompt, end = n;

	if (f->model->block_length)
		end = i < p ? i + 1 : p + ((i - p) / f->block + 1) * f->block;
	return end < n ? end : n;
}

/* Compare `want` with the logits that the device computes for the n tokens of
 * x. */
static void compare(
	struct fixture *f, const int32_t *x, unsigned n, const double *want)
{
	const unsigned width = f->model->n_vocab;
	const bool blocks = f->model->block_length;
	struct row row[CONTEXT];
	const struct rows rows = {
		blocks ? VISIBILITY_BLOCK : VISIBILITY_WINDOW, n, row
	};
	float *logits = malloc((size_t)n * width * sizeof(*logits));
	struct err e = { 0 };

	assert_non_null(logits);
	for (unsigned i = 0; i < n; i++) {
		row[i] = (struct row){ .token = x[i], .position = i };
		if (blocks)
			row[i].end = visibility_end(f, i, n);
	}
	session_truncate(f->s, SESSION_TEXT, 0);
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
	assert_ok(session_logits(f->s, 0, n, logits, &e), &e);
	for (size_t i = 0; i < (size_t)n * width; i++)
		f->worst = fmax(f->worst, fabs((double)logits[i] - want[i]));
	f->compared++;
	free(logits);
}

static void naive_logits(void *arg, const int32_t *x, unsigned n, double *out)
{
	static unsigned position[CONTEXT];
	static uint8_t sees[CONTEXT * CONTEXT];
	struct fixture *f = arg;

	for (unsigned i = 0; i < n; i++) {
		position[i] = i;
		for (unsigned j = 0; j < n; j++)
			sees[i * n + j] = j < visibility_end(f, i, n);
	}
	ref_logits_seen(f->model->gguf, &f->file, x, position, sees, n, out);
	compare(f, x, n, out);
}

static void check_prompt(struct fixture *f, const char *prompt)
{
	struct naive v = { .logits = naive_logits,
		.arg = f,
		.n_vocab = f->model->n_vocab,
		.block = f->block,
		.steps = f->steps,
		.shift = f->model->shift_logits,
		.mask = f->model->mask_token };
	int32_t want[CONTEXT];
	unsigned n, passes;

	write_text(f, prompt);
	n = (unsigned)f->n_prompt;
	memcpy(want, f->text, n * sizeof(*want));
	passes = naive_decode(
		&v, want, &n, n + f->n_predict, CONTEXT, tokenizer_eos(f->tok));
	print_message("%s after '%s': %u of %u tokens, %u passes, least "
		      "margin %g\n",
		f->name, prompt, n - (unsigned)f->n_prompt, f->n_predict,
		passes, v.margin);
	if (v.margin < MARGIN)
		fail_msg("rounding may decide this text: try another prompt");
	assert_int_equal(f->n, n);
	for (unsigned i = 0; i < n; i++)
		if (f->text[i] != want[i])
			fail_msg("%s after '%s': token %u is %d, not %d",
				f->name, prompt, i, f->text[i], want[i]);
}

static void check(struct fixture *f)
{
	if (access(f->path, R_OK)) {
		print_message("skipped: no %s\n", f->path);
		skip();
	}
	open_model(f);
	open_pair(f);
	for (unsigned i = 0; f->prompt[i]; i++)
		check_prompt(f, f->prompt[i]);
	print_message(
		"%u passes, logits at most %g apart\n", f->compared, f->worst);
	pair_close(&f->s);
	method_close(&f->env);
	tokenizer_close(f->tok);
	model_close(f->model);
	assert_close(f->worst, 0, BOUND, "logits of the same text");
}

static void test_llada(void **state)
{
	static const char *const prompts[] = { "Sum: 12 + 7 =",
		"Once upon a time",
		"Read: Nora was in the tower.\nQuestion:", NULL };
	struct fixture f = { .name = "llada",
		.path = "flash/models/diffusion.gguf",
		.prompt = prompts,
		.block = 8,
		.n_predict = 8 };

	check(&f);
}

/* The last row of the prompt predicts the first mask (shifted logits), and a
 * block takes few passes. */
static void test_block(void **state)
{
	static const char *const prompts[] = { "Sum: 12 + 7 =",
		"Read: Nora was in the tower.\nQuestion: Where is Nora?\n"
		"Answer:",
		NULL };
	struct fixture f = { .name = "block",
		.path = "flash/models/block.gguf",
		.prompt = prompts,
		.block = 32,
		.steps = 4,
		.n_predict = 32 };

	check(&f);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_llada),
	cmocka_unit_test(test_block),
};

TEST_FILE(tests)
