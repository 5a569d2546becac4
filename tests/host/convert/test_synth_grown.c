#include "tests/harness.h"

#include "base/err.h"
#include "host/convert/synth_grown.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TOKENS 24

/* The source has two layers, width 32, 4 query heads and 2 key heads of 8
 * values each. It grows to five layers, width 96, 9 query heads and 3 key heads
 * of 16 values each. */
static const struct shape wider = { .name = "wider",
	.arch = "qwen2",
	.title = "Wider",
	.n_vocab = 130,
	.n_layer = 5,
	.n_embd = 96,
	.n_head = 9,
	.n_kv_head = 3,
	.head_dim = 16,
	.n_ff = 96,
	.tied = true,
	.qkv_bias = true };

static void path_of(char path[4200], const char *name)
{
	snprintf(path, 4200, "%s/%s", harness_tmp(), name);
}

/* Write the model of `f` to the file `model`, and the same model grown to the
 * layer sizes of `shape` to the file `grown`. Returns the shape of the grown
 * model. */
static struct shape grow_file(const struct model_file *f,
	const struct shape *shape, char model[4200], char grown[4200])
{
	struct synth_opts o = { .quant = DTYPE_F32, .ffn_down = DTYPE_F32 };
	struct err e = { 0 };
	struct shape is;
	struct grown g;

	path_of(model, "model.gguf");
	path_of(grown, "grown.gguf");
	model_file_write(f, model);
	assert_ok(grown_open(&g, model, shape, &e), &e);
	o.grown = &g;
	assert_ok(synth_write(grown, &o, &e), &e);
	is = g.shape;
	grown_close(&g);
	return is;
}

static void logits_of(const char *path, const struct model_file *f,
	const int32_t *token, double *logits)
{
	struct err e = { 0 };
	struct model *m;

	/* opening also checks that the program accepts the file */
	assert_ok(model_open(&m, path, NULL, NULL, &e), &e);
	ref_logits(m->gguf, f, token, TOKENS, logits);
	model_close(m);
}

/* Compare a row of logits of the grown model (is) with the row of its source
 * (was). The grown model may have higher logits for the source's tokens, but
 * all higher by the same amount. No added token may have a logit above -40. */
static void check_row(
	const double *is, uint32_t n_is, const double *was, uint32_t n_was)
{
	const double rise = is[0] - was[0];

	for (uint32_t i = 1; i < n_was; i++)
		assert_close(is[i] - rise, was[i], 2e-4, "logit");
	for (uint32_t i = n_was; i < n_is; i++) {
		if (is[i] > -40)
			fail_msg("token %u more has logit %g", i, is[i]);
	}
}

static void check_same(const struct model_file *f, const struct shape *shape)
{
	static double was[TOKENS * 256], is[TOKENS * 256];
	char model[4200], grown[4200];
	const struct shape s = grow_file(f, shape, model, grown);
	const struct model_file larger = { .arch = s.arch,
		.n_layer = s.n_layer,
		.n_embd = s.n_embd,
		.n_head = s.n_head,
		.n_kv_head = s.n_kv_head,
		.head_dim = s.head_dim,
		.n_ff = s.n_ff,
		.n_vocab = s.n_vocab,
		.n_expert = s.n_expert,
		.n_used = s.n_used,
		.norm_eps = s.norm_eps };
	int32_t token[TOKENS];

	for (int i = 0; i < TOKENS; i++)
		token[i] = (i * 37 + 11) % (int)f->n_vocab;
	logits_of(model, f, token, was);
	logits_of(grown, &larger, token, is);
	for (int i = 0; i < TOKENS; i++)
		check_row(is + i * (int)s.n_vocab, s.n_vocab,
			was + i * (int)f->n_vocab, f->n_vocab);
}

static struct model_file model_of(const char *arch, bool tied)
{
	struct model_file f = model_file_tiny;

	f.arch = arch;
	f.tied = tied;
	f.bias = !strcmp(arch, "qwen2");
	return f;
}

/* In llama, RoPE rotates other pairs of values than in qwen2, so the test grows
 * models of both architectures. */
static void test_generates_the_same(void **state)
{
	const struct model_file llama = model_of("llama", true);
	const struct model_file qwen = model_of("qwen2", true);
	struct shape other = wider;

	check_same(&llama, &wider);
	check_same(&qwen, &wider);
	other.arch = "llama";
	other.qkv_bias = false;
	check_same(&llama, &other);
	/* With this factor the grown file has a tensor rope_freqs. Growing
	 * fills it with ones, so that RoPE stays that of the source. */
	other.rope_factor = 32;
	check_same(&llama, &other);
}

static void test_two_matrices(void **state)
{
	const struct model_file tied = model_of("llama", true);
	const struct model_file untied = model_of("llama", false);
	struct shape other = wider;

	other.tied = false;
	check_same(&tied, &other);
	check_same(&untied, &other);
}

static void test_same_shape_but_one(void **state)
{
	const struct model_file f = model_of("llama", true);
	struct shape s = wider;

	s.n_layer = f.n_layer;
	s.n_embd = 64;
	s.n_head = f.n_head;
	s.n_kv_head = f.n_kv_head;
	s.head_dim = f.head_dim;
	s.n_ff = f.n_ff;
	s.n_vocab = f.n_vocab;
	check_same(&f, &s);
}

/* The larger model has experts. Its architecture is then llama, as in Mixtral,
 * even if the shape's architecture is another one, which has norms of queries
 * and keys. */
static void test_experts(void **state)
{
	const struct model_file llama = model_of("llama", true);
	const struct model_file qwen = model_of("qwen2", true);
	struct shape other = wider;

	other.n_expert = 6;
	other.n_used = 2;
	check_same(&qwen, &other);
	other.arch = "qwen3moe";
	other.qk_norm = true;
	other.qkv_bias = false;
	check_same(&llama, &other);
}

/* If the wanted shape has no name, the model's own shape is used, with the
 * experts (n_expert, n_used) of the wanted shape. */
static void test_own_shape(void **state)
{
	const struct shape dense = { 0 }, moe = { .n_expert = 5, .n_used = 3 };

	for (int tied = 0; tied < 2; tied++) {
		const struct model_file llama = model_of("llama", tied);
		const struct model_file qwen = model_of("qwen2", tied);

		check_same(&llama, &dense);
		check_same(&llama, &moe);
		check_same(&qwen, &dense);
		check_same(&qwen, &moe);
	}
}

/* ---- refused models ------------------------------------------------------ */

static void check_refused(
	const struct model_file *f, struct shape s, const char *why)
{
	struct err e = { 0 };
	char path[4200];
	struct grown g;

	path_of(path, "refused.gguf");
	model_file_write(f, path);
	assert_int_equal(grown_open(&g, path, &s, &e), -EINVAL);
	if (!strstr(e.text, why) || !strstr(e.text, path))
		fail_msg("'%s' does not say '%s'", e.text, why);
}

static void test_too_large(void **state)
{
	const struct model_file f = model_of("llama", true);
	struct shape s = wider;

	s.n_layer = 1;
	check_refused(&f, s, "2 layers, and the shape wider has room for 1");
	s = wider;
	s.n_embd = 32;
	check_refused(&f, s, "states (and one more for absent tokens)");
	s = wider;
	s.n_kv_head = s.n_head = 1;
	check_refused(&f, s, "key-value heads");
	s = wider;
	s.n_head = 3;
	check_refused(&f, s, "query heads");
	s = wider;
	s.n_ff = 32;
	check_refused(&f, s, "64 feed-forward neurons");
	s = wider;
	s.n_vocab = 95;
	check_refused(&f, s, "96 tokens");
	s = wider;
	s.head_dim = 12;
	check_refused(&f, s, "not a multiple");
}

static void put_slow_waves(struct gguf_writer *w)
{
	gguf_put_str(w, "llama.rope.scaling.type", "linear");
	gguf_put_f32(w, "llama.rope.scaling.factor", 4);
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 3);
}

static void test_other_kind(void **state)
{
	struct model_file f = model_of("llada", true);
	struct shape s = wider;

	f.keys = put_mask;
	check_refused(&f, s, "not causal");
	f = model_of("qwen3", true);
	f.qk_norm = true;
	check_refused(&f, s, "norms of queries");
	f = model_of("llama", true);
	s.arch = "dream";
	check_refused(&f, s, "the shape is not");
	s.arch = "llada";
	check_refused(&f, s, "the shape is not");
	s = wider;
	s.qk_norm = true;
	check_refused(&f, s, "norms of queries");
	f = model_of("llama", true);
	f.n_expert = 4;
	f.n_used = 2;
	check_refused(&f, s, "it has experts");
	f = model_of("qwen2", true);
	s = wider;
	s.qkv_bias = false;
	check_refused(&f, s, "biases");
	f = model_of("llama", false);
	check_refused(&f, s, "one matrix for both");
	f = model_of("llama", true);
	f.keys = put_slow_waves;
	check_refused(&f, s, "frequencies");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_generates_the_same),
	cmocka_unit_test(test_two_matrices),
	cmocka_unit_test(test_same_shape_but_one),
	cmocka_unit_test(test_experts),
	cmocka_unit_test(test_own_shape),
	cmocka_unit_test(test_too_large),
	cmocka_unit_test(test_other_kind),
};

TEST_FILE(tests)
