/* Keys and tensors of model files: those that a file must have, and those that
 * are refused with a message that names them. */
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/opened_file.h"

static void test_llama(void **state)
{
	struct model *m = open_file(&model_file_tiny);

	assert_string_equal(m->arch, "llama");
	assert_int_equal(m->n_layer, 2);
	assert_int_equal(m->n_embd, 32);
	assert_int_equal(m->n_head, 4);
	assert_int_equal(m->n_kv_head, 2);
	assert_int_equal(m->head_dim, 8);
	assert_int_equal(m->n_rot, 8);
	assert_int_equal(m->n_ff, 64);
	assert_int_equal(m->n_vocab, 96);
	assert_int_equal(m->n_ctx, 256);
	assert_false(m->rope_neox);
	assert_true(m->causal);
	assert_int_equal(m->mask_token, -1);
	assert_ptr_not_equal(m->output, m->token_embd);
	assert_close(m->rope_freq[0], 1, 0, "frequency 0");
	assert_close(m->rope_freq[3], 1e-3, 1e-9, "frequency 3: 10^4^-3/4");
	assert_null(m->layer[1][WIRE_T_Q_BIAS]);
	assert_non_null(m->layer[1][WIRE_T_DOWN]);
	model_close(m);
}

static void test_qwens(void **state)
{
	struct model_file f = model_file_tiny;
	struct model *m;

	f.arch = "qwen2";
	f.bias = f.tied = true;
	m = open_file(&f);
	assert_true(m->rope_neox);
	assert_ptr_equal(m->output, m->token_embd);
	assert_non_null(m->layer[0][WIRE_T_K_BIAS]);
	model_close(m);

	f = model_file_tiny;
	f.arch = "qwen3";
	f.qk_norm = true;
	f.head_dim = 16; /* four heads are twice as wide as the embedding */
	m = open_file(&f);
	assert_int_equal(m->head_dim, 16);
	assert_non_null(m->layer[1][WIRE_T_Q_NORM]);
	model_close(m);
}

static void test_embedding_rows(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_Q8_0,
		DTYPE_Q4_0 };
	/* half a quantization step at the format's largest value */
	static const double bound[] = { 0, 2e-4, 2e-3, 4e-2 };

	for (unsigned i = 0; i < 4; i++) {
		struct model_file f = model_file_tiny;
		struct model_tensor t = { .cols = 32, .rows = 96 };
		struct model *m;
		float row[32];
		struct err e = { 0 };

		f.type = types[i];
		m = open_file(&f);
		assert_ok(model_embed(m, 95, row, &e), &e);
		for (unsigned c = 0; c < 32; c++)
			assert_close(row[c], mf_value(&t, 0, 95 * 32 + c),
				bound[i], "embedding");
		model_close(m);
	}
}

/* ---- keys ---------------------------------------------------------------- */

static void test_missing_keys(void **state)
{
	static const char *const keys[] = { "llama.block_count",
		"llama.context_length", "llama.embedding_length",
		"llama.feed_forward_length", "llama.attention.head_count",
		"llama.attention.layer_norm_rms_epsilon" };

	for (unsigned i = 0; i < 6; i++) {
		struct model_file f = model_file_tiny;

		f.skip = keys[i];
		refused(&f, keys[i], "missing");
	}
}

static void test_architecture(void **state)
{
	struct model_file f = model_file_tiny;

	f.arch = "mamba";
	refused(&f, "'mamba'", "qwen2");
}

static void put_yarn(struct gguf_writer *w)
{
	gguf_put_str(w, "llama.rope.scaling.type", "yarn");
	gguf_put_f32(w, "llama.rope.scaling.factor", 4);
}

static void put_experts(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.expert_count", 8);
}

static void put_no_experts(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.expert_count", 0);
	gguf_put_str(w, "llama.rope.scaling.type", "yarn");
	gguf_put_f32(w, "llama.rope.scaling.factor", 1);
	gguf_put_u32(w, "llama.attention.sliding_window", 256);
	gguf_put_u32(w, "llama.vocab_size", 96);
	gguf_put_f32(w, "llama.logit_scale", 1);
	gguf_put_bool(w, "llama.attention.causal", true);
	gguf_put_str(w, "llama.something_new", "harmless");
}

static void put_window(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.attention.sliding_window", 128);
}

static void put_scale(struct gguf_writer *w)
{
	gguf_put_f32(w, "llama.logit_scale", .25f);
}

static void put_new_attention(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.attention.sinks", 1);
}

static void put_value_length(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.attention.key_length", 8);
	gguf_put_u32(w, "llama.attention.value_length", 16);
}

static void put_odd_rotation(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.rope.dimension_count", 7);
}

static void put_bidirectional(struct gguf_writer *w)
{
	gguf_put_bool(w, "llama.attention.causal", false);
}

static void put_string_base(struct gguf_writer *w)
{
	gguf_put_str(w, "llama.rope.freq_base", "high");
}

static void test_keys_that_change_the_arithmetic(void **state)
{
	static const struct {
		void (*keys)(struct gguf_writer *);
		const char *named, *also;
	} bad[] = {
		{ put_yarn, "llama.rope.scaling.type", "yarn" },
		{ put_experts, "llama.expert_used_count", "missing" },
		{ put_window, "llama.attention.sliding_window", "128" },
		{ put_scale, "llama.logit_scale", "not supported" },
		{ put_new_attention, "llama.attention.sinks", "not known" },
		{ put_value_length, "value_length", "differ" },
		{ put_odd_rotation, "llama.rope.dimension_count", "7" },
		{ put_bidirectional, "llama.attention.causal",
			"not supported" },
		{ put_string_base, "llama.rope.freq_base", "" },
	};
	struct model_file f = model_file_tiny;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f.keys = bad[i].keys;
		refused(&f, bad[i].named, bad[i].also);
	}
	/* put_no_experts writes such keys with values that are supported. */
	f.keys = put_no_experts;
	model_close(open_file(&f));
}

static void put_three_kv_heads(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.attention.head_count_kv", 3);
}

static void put_no_kv_heads(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.attention.head_count_kv", 0);
}

static void put_many_layers(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.block_count", UINT32_MAX);
}

static void test_numbers_out_of_range(void **state)
{
	struct model_file f = model_file_tiny;

	f.skip = "llama.attention.head_count_kv";
	f.keys = put_three_kv_heads;
	refused(&f, f.skip, "3 does not divide");
	f.keys = put_no_kv_heads;
	refused(&f, f.skip, "is 0");
	f.skip = "llama.block_count";
	f.keys = put_many_layers;
	refused(&f, f.skip, "4294967295");
}

/* ---- rope ---------------------------------------------------------------- */

static void put_linear(struct gguf_writer *w)
{
	gguf_put_str(w, "llama.rope.scaling.type", "linear");
	gguf_put_f32(w, "llama.rope.scaling.factor", 4);
	gguf_put_f32(w, "llama.rope.freq_base", 16);
	gguf_put_u32(w, "llama.rope.dimension_count", 4);
}

static void test_rope_scaling(void **state)
{
	struct model_file f = model_file_tiny;
	struct model *m;

	f.keys = put_linear;
	m = open_file(&f);
	assert_int_equal(m->n_rot, 4);
	assert_close(m->rope_freq[0], .25, 0, "1 / 4");
	assert_close(m->rope_freq[1], .0625, 1e-9, "16^-1/2 / 4");
	model_close(m);

	f = model_file_tiny;
	f.rope_freqs = true;
	m = open_file(&f);
	for (unsigned i = 0; i < 4; i++) {
		const struct gguf_tensor *d =
			gguf_tensor(m->gguf, "rope_freqs.weight");
		float divisor;

		memcpy(&divisor, (const char *)d->data + 4 * i, 4);
		assert_in_range(divisor * 100, 70, 130);
		assert_close(m->rope_freq[i],
			pow(10000, -(double)i / 4) / divisor, 1e-7, "divided");
	}
	model_close(m);

	f.wrong_shape = "rope_freqs.weight";
	refused(&f, "rope_freqs.weight", "[4]");
}

/* ---- tensors ------------------------------------------------------- */

static void test_missing_tensors(void **state)
{
	static const char *const names[] = { "token_embd.weight",
		"output_norm.weight", "blk.0.attn_norm.weight",
		"blk.1.attn_k.weight", "blk.1.ffn_down.weight" };
	struct model_file f = model_file_tiny;

	for (unsigned i = 0; i < 5; i++) {
		f.skip = names[i];
		refused(&f, names[i], "missing");
	}
	f.skip = NULL;
	f.arch = "qwen2"; /* qwen2 requires biases */
	refused(&f, "blk.0.attn_q.bias", "missing");
	f.arch = "qwen3";
	refused(&f, "blk.0.attn_q_norm.weight", "missing");
}

static void test_unknown_tensors(void **state)
{
	static const char *const names[] = { "blk.1.ffn_gate_inp.weight",
		"blk.0.attn_q_norm.weight", "output.bias",
		"position_embd.weight", "blk.x.attn_q.weight" };
	struct model_file f = model_file_tiny;

	for (unsigned i = 0; i < 5; i++) {
		f.tensor = names[i];
		refused(&f, names[i], "not supported");
	}
	f.tensor = "blk.2.attn_norm.weight";
	refused(&f, f.tensor, "block_count");
}

static void test_wrong_shapes(void **state)
{
	static const char *const names[] = { "token_embd.weight",
		"output_norm.weight", "output.weight", "blk.0.attn_norm.weight",
		"blk.1.attn_v.weight", "blk.1.ffn_down.weight" };
	struct model_file f = model_file_tiny;

	for (unsigned i = 0; i < 6; i++) {
		f.wrong_shape = names[i];
		refused(&f, names[i], "keys of the model file it must have");
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_llama),
	cmocka_unit_test(test_qwens),
	cmocka_unit_test(test_embedding_rows),
	cmocka_unit_test(test_missing_keys),
	cmocka_unit_test(test_architecture),
	cmocka_unit_test(test_keys_that_change_the_arithmetic),
	cmocka_unit_test(test_numbers_out_of_range),
	cmocka_unit_test(test_rope_scaling),
	cmocka_unit_test(test_missing_tensors),
	cmocka_unit_test(test_unknown_tensors),
	cmocka_unit_test(test_wrong_shapes),
};

TEST_FILE(tests)
