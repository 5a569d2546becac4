/* Files of mixtures of experts: keys and tensors that a file must have, and
 * those that are refused with a message that names them. */
#include "host/model/model.h"

#include "tests/harness.h"
#include "tests/host/model/opened_file.h"

#include <string.h>

static struct model_file moe(const char *arch)
{
	struct model_file f = model_file_tiny;

	f.arch = arch;
	f.bias = !strcmp(arch, "qwen2moe");
	f.n_shared = f.bias ? 96 : 0;
	f.qk_norm = strcmp(arch, "llama") && !f.bias;
	f.n_expert = 6;
	f.n_used = 2;
	return f;
}

static void test_architectures(void **state)
{
	static const struct {
		const char *arch;
		bool rope_neox, norm_picks;
		uint64_t q_norm, k_norm;
	} want[] = {
		{ "llama", false, true, 0, 0 },
		{ "qwen3moe", true, true, 8, 8 },
		{ "olmoe", true, false, 32, 16 },
		{ "qwen2moe", true, false, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct model_file f = moe(want[i].arch);
		struct model *m = open_file(&f);

		assert_string_equal(m->arch, want[i].arch);
		assert_true(m->causal);
		assert_int_equal(m->n_expert, 6);
		assert_int_equal(m->n_used, 2);
		assert_int_equal(m->n_ff, 64);
		assert_int_equal(m->rope_neox, want[i].rope_neox);
		assert_int_equal(m->norm_picks, want[i].norm_picks);
		if (want[i].q_norm) {
			assert_int_equal(m->layer[1][WIRE_T_Q_NORM]->dim[0],
				want[i].q_norm);
			assert_int_equal(m->layer[1][WIRE_T_K_NORM]->dim[0],
				want[i].k_norm);
		}
		assert_int_equal(m->layer[1][WIRE_T_ROUTER]->dim[1], 6);
		assert_int_equal(m->layer[1][WIRE_T_GATE]->dim[1], 64);
		assert_int_equal(m->layer[0][WIRE_T_DOWN]->dim[0], 64);
		assert_int_equal(m->layer[0][WIRE_T_DOWN]->dim[1], 32);
		assert_int_equal(m->layer[0][WIRE_T_DOWN]->dim[2], 6);
		model_close(m);
	}
}

/* ---- keys ---------------------------------------------------------------- */

#define PUT(name, kind, key, value)                               \
	static void name(struct gguf_writer *w)                   \
	{                                                         \
		gguf_put_##kind(w, "qwen3moe.expert" key, value); \
	}
PUT(put_width, u32, "_feed_forward_length", 64)
PUT(put_other_width, u32, "_feed_forward_length", 32)
PUT(put_no_width, u32, "_feed_forward_length", 0)
PUT(put_not_normed, bool, "_weights_norm", false)
PUT(put_norm_number, u32, "_weights_norm", 1)
PUT(put_shared, u32, "_shared_count", 1)
PUT(put_shared_width, u32, "_shared_feed_forward_length", 64)
PUT(put_scale, f32, "_weights_scale", 2.5f)
PUT(put_sigmoid, u32, "_gating_func", 2)
PUT(put_groups, u32, "_group_count", 4)
PUT(put_new, u32, "_bias", 1)
PUT(put_one, u32, "_count", 1)
PUT(put_1025, u32, "_count", 1025)
PUT(put_none, u32, "_count", 0)
PUT(put_use_none, u32, "_used_count", 0)
PUT(put_use_7, u32, "_used_count", 7)
PUT(put_use_text, str, "_used_count", "two")

static void put_dense_layer(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen3moe.leading_dense_block_count", 1);
}

/* Keys that some converters write, with values that have no effect. */
static void put_neutral(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen3moe.expert_feed_forward_length", 64);
	gguf_put_u32(w, "qwen3moe.feed_forward_length", 6144);
	gguf_put_u32(w, "qwen3moe.expert_shared_count", 0);
	gguf_put_u32(w, "qwen3moe.leading_dense_block_count", 0);
	gguf_put_f32(w, "qwen3moe.expert_weights_scale", 1);
	gguf_put_bool(w, "qwen3moe.expert_weights_norm", true);
	gguf_put_u32(w, "qwen3moe.expert_gating_func", 1);
}

static void test_keys(void **state)
{
	static const struct {
		void (*keys)(struct gguf_writer *);
		const char *named, *also;
		bool replaces; /* replaces a key of the file */
	} bad[] = {
		{ put_shared, "qwen3moe.expert_shared_count",
			"only in qwen2moe" },
		{ put_shared_width,
			"qwen3moe.expert_shared_feed_forward_length",
			"only in qwen2moe" },
		{ put_dense_layer, "qwen3moe.leading_dense_block_count",
			"all layers must have experts, or none" },
		{ put_scale, "qwen3moe.expert_weights_scale", "not supported" },
		{ put_sigmoid, "qwen3moe.expert_gating_func", "softmax" },
		{ put_groups, "qwen3moe.expert_group_count", "not supported" },
		{ put_new, "qwen3moe.expert_bias", "not known" },
		{ put_norm_number, "qwen3moe.expert_weights_norm", "bool" },
		{ put_no_width, "qwen3moe.expert_feed_forward_length", "0" },
		{ put_none, "qwen3moe.expert_count", "is 0", true },
		{ put_one, "qwen3moe.expert_count", "2 to 1024", true },
		{ put_1025, "qwen3moe.expert_count", "is 1025", true },
		{ put_use_none, "qwen3moe.expert_used_count", "is 0", true },
		{ put_use_7, "qwen3moe.expert_used_count",
			"number of experts, 6", true },
		{ put_use_text, "qwen3moe.expert_used_count", "", true },
		{ put_other_width, "blk.0.ffn_gate_exps.weight",
			"keys of the model file it must have 32 x 32 x 6" },
	};
	struct model_file f = moe("qwen3moe");
	struct model *m;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		f.keys = bad[i].keys;
		f.skip = bad[i].replaces ? bad[i].named : NULL;
		refused(&f, bad[i].named, bad[i].also);
	}
	f.keys = NULL;
	f.skip = "qwen3moe.expert_count";
	refused(&f, f.skip, "missing");
	f.skip = "qwen3moe.expert_used_count";
	refused(&f, f.skip, "missing");
	f.skip = "qwen3moe.feed_forward_length";
	refused(&f, f.skip, "missing");

	/* put_width writes the width of experts, so the skipped key is not
	 * needed. */
	f.keys = put_width;
	model_close(open_file(&f));
	f.keys = put_neutral;
	m = open_file(&f);
	assert_int_equal(m->n_ff, 64);
	assert_true(m->norm_picks);
	model_close(m);
	f.skip = NULL;
	f.keys = put_not_normed;
	m = open_file(&f);
	assert_false(m->norm_picks);
	model_close(m);
}

/* ---- shared experts ------------------------------------------------------ */

static void put_shared_0(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2moe.expert_shared_feed_forward_length", 0);
}

static void put_shared_64(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2moe.expert_shared_feed_forward_length", 64);
}

static void put_shared_text(struct gguf_writer *w)
{
	gguf_put_str(w, "qwen2moe.expert_shared_feed_forward_length", "wide");
}

static void put_shared_count(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2moe.expert_shared_count", 2);
}

static void put_shared_experts_32(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2moe.expert_feed_forward_length", 32);
}

static void put_dense_95(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2moe.feed_forward_length", 95);
}

static void test_shared(void **state)
{
	static const char width[] =
		"qwen2moe.expert_shared_feed_forward_length";
	static const char *const names[] = { "blk.1.ffn_gate_inp_shexp.weight",
		"blk.0.ffn_gate_shexp.weight", "blk.1.ffn_up_shexp.weight",
		"blk.1.ffn_down_shexp.weight" };
	struct model_file f = moe("qwen2moe");
	struct model *m = open_file(&f);

	assert_int_equal(m->n_shared, 96);
	assert_int_equal(m->n_ff, 64);
	assert_int_equal(m->layer[1][WIRE_T_SHARED_FACTOR]->dim[0], 32);
	assert_int_equal(m->layer[1][WIRE_T_SHARED_UP]->dim[1], 96);
	assert_int_equal(m->layer[1][WIRE_T_SHARED_DOWN]->dim[0], 96);
	model_close(m);
	for (unsigned i = 0; i < 4; i++) {
		f.skip = names[i];
		refused(&f, names[i], "missing");
		f.skip = NULL;
		f.wrong_shape = names[i];
		refused(&f, names[i], "keys of the model file it must have");
		f.wrong_shape = NULL;
	}
	f.tensor = "blk.0.ffn_up_shexp.bias";
	refused(&f, f.tensor, "not supported");
	f.tensor = NULL;
	f.keys = put_shared_count;
	refused(&f, "qwen2moe.expert_shared_count", "has no such key");
	f.skip = width;
	f.keys = put_shared_0;
	refused(&f, width, "is 0");
	f.keys = put_shared_text;
	refused(&f, width, "");
	f.keys = put_shared_64;
	refused(&f, "ffn_gate_shexp.weight", "must have 32 x 64");
}

/* Without keys for the widths of experts, the widths follow from that of a
 * dense layer, 128: two experts of 64 and a shared expert of 128. */
static void test_shared_defaults(void **state)
{
	struct model_file f = moe("qwen2moe");
	struct model *m;

	f.skip = "qwen2moe.expert_shared_feed_forward_length";
	f.n_shared = 128;
	m = open_file(&f);
	assert_int_equal(m->n_shared, 128);
	assert_int_equal(m->n_ff, 64);
	model_close(m);
	f.skip = "qwen2moe.feed_forward_length";
	refused(&f, f.skip, "missing");
	f.keys = put_dense_95;
	refused(&f, "expert_feed_forward_length' is missing",
		"95 is no multiple of expert_used_count = 2");
	f.keys = put_shared_experts_32;
	refused(&f, "ffn_gate_exps.weight", "must have 32 x 32 x 6");
}

static void test_too_many_used(void **state)
{
	struct model_file f = moe("llama");

	f.n_expert = 66;
	f.n_used = 65;
	refused(&f, "llama.expert_used_count", "supported is 1 to 64");
	f.n_used = 64;
	model_close(open_file(&f));
}

/* ---- tensors ------------------------------------------------------------- */

static void put_seven(struct gguf_writer *w)
{
	gguf_put_u32(w, "llama.expert_count", 7);
}

static void test_tensors(void **state)
{
	static const char *const names[] = { "blk.0.ffn_gate_inp.weight",
		"blk.0.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight",
		"blk.1.ffn_down_exps.weight" };
	static const char *const others[] = { "blk.0.ffn_gate.weight",
		"blk.0.ffn_up_shexp.weight", "blk.0.ffn_gate_inp_shexp.weight",
		"blk.0.exp_probs_b.bias" };
	struct model_file f = moe("llama");

	for (unsigned i = 0; i < 4; i++) {
		f.skip = names[i];
		refused(&f, names[i], "missing");
	}
	f.skip = NULL;
	for (unsigned i = 0; i < 4; i++) {
		f.wrong_shape = names[i];
		refused(&f, names[i], "keys of the model file it must have");
	}
	f.wrong_shape = NULL;
	for (unsigned i = 0; i < 4; i++) {
		f.tensor = others[i];
		refused(&f, others[i], "not supported");
	}
	f.tensor = NULL;
	f.skip = "llama.expert_count";
	f.keys = put_seven;
	refused(&f, "ffn_gate_inp.weight", "have 32 x 7");
}

/* Open files with each type that matrices can have. */
static void test_types(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16,
		DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_IQ4_NL, DTYPE_MXFP4 };
	struct model_file f = moe("qwen3moe");

	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++) {
		struct model *m;

		f.type = types[i];
		m = open_file(&f);
		assert_int_equal(m->layer[0][WIRE_T_UP]->type, types[i]);
		assert_int_equal(m->layer[0][WIRE_T_UP]->bytes,
			6 * 64 * dtype_row_bytes(types[i], 32));
		model_close(m);
	}
}

static void put_qwen2_experts(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2.expert_count", 8);
}

static void put_qwen2_no_experts(struct gguf_writer *w)
{
	gguf_put_u32(w, "qwen2.expert_count", 0);
	gguf_put_u32(w, "qwen2.expert_used_count", 0);
}

static void test_dense_architectures(void **state)
{
	struct model_file f = model_file_tiny;

	f.arch = "qwen2";
	f.bias = true;
	f.keys = put_qwen2_experts;
	refused(&f, "qwen2.expert_count", "without experts");
	f.keys = put_qwen2_no_experts;
	model_close(open_file(&f));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_architectures),
	cmocka_unit_test(test_keys),
	cmocka_unit_test(test_shared),
	cmocka_unit_test(test_shared_defaults),
	cmocka_unit_test(test_too_many_used),
	cmocka_unit_test(test_tensors),
	cmocka_unit_test(test_types),
	cmocka_unit_test(test_dense_architectures),
};

TEST_FILE(tests)
