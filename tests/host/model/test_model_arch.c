/*
 * Files of diffusion models: the effect of llama.cpp's keys, the defaults of
 * missing keys, and values that are refused with a message that names the key.
 */
#include "host/model/model_arch.h"

#include "base/checked.h"
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/opened_file.h"

#include <string.h>

#define MASK    "tokenizer.ggml.mask_token_id"
#define SHIFT   "diffusion.shift_logits"
#define LENGTH  "diffusion.block_length"
#define VISIBLE "diffusion.visible"
#define STABLE  "diffusion.stable"

static struct model_file file_of(
	const char *arch, void (*keys)(struct gguf_writer *))
{
	struct model_file f = model_file_tiny;

	f.arch = arch;
	f.bias = !strcmp(arch, "dream");
	f.keys = keys;
	return f;
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, MASK, 95);
}

static void put_converted_llada(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_bool(w, "llada.attention.causal", false);
	gguf_put_bool(w, SHIFT, false);
}

static void put_converted_dream(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_bool(w, "dream.attention.causal", false);
}

static void put_shift(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_bool(w, SHIFT, true);
}

static void put_no_shift(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_bool(w, SHIFT, false);
}

static void put_no_blocks(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, LENGTH, 0);
}

static void put_blocks(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, LENGTH, 32);
}

static void put_context_of_blocks(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, LENGTH, 256); /* the context length of the model */
}

/*
 * For LLaDA, llama.cpp's converter permutes the rows of Q and K as it does for
 * Llama, and llama.cpp's runtime rotates neighboring values. For Dream the
 * converter keeps Qwen2's order of rows, and the runtime rotates values that
 * are half a head apart. No key of the file states which values are rotated
 * together.
 */
static void test_what_keys_say(void **state)
{
	static const struct {
		const char *arch;
		void (*keys)(struct gguf_writer *);
		bool rope_neox, shift_logits;
		uint32_t block_length;
	} want[] = {
		{ "llada", put_mask, false, false, 0 },
		{ "llada", put_converted_llada, false, false, 0 },
		{ "llada", put_shift, false, true, 0 },
		{ "llada", put_no_blocks, false, false, 0 },
		{ "llada", put_blocks, false, false, 32 },
		{ "llada", put_context_of_blocks, false, false, 256 },
		{ "dream", put_mask, true, true, 0 },
		{ "dream", put_converted_dream, true, true, 0 },
		{ "dream", put_no_shift, true, false, 0 },
		{ "dream", put_blocks, true, true, 32 },
	};

	for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++) {
		struct model_file f = file_of(want[i].arch, want[i].keys);
		struct model *m = open_file(&f);

		print_message("case %u\n", i);
		assert_string_equal(m->arch, want[i].arch);
		assert_false(m->causal);
		assert_int_equal(m->mask_token, 95);
		assert_int_equal(m->rope_neox, want[i].rope_neox);
		assert_int_equal(m->shift_logits, want[i].shift_logits);
		assert_int_equal(m->block_length, want[i].block_length);
		model_close(m);
	}
}

static void put_thresholds(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_f32(w, VISIBLE, 0.75f);
	gguf_put_f32(w, STABLE, 1);
}

static void test_thresholds(void **state)
{
	struct model_file f = file_of("llada", put_thresholds);
	struct model_file none = file_of("llada", put_mask);
	struct model *m = open_file(&f);

	assert_true(m->visible == 0.75 && m->stable == 1);
	model_close(m);
	m = open_file(&none);
	assert_true(m->visible < 0 && m->stable < 0);
	model_close(m);
}

static void put_nothing(struct gguf_writer *w)
{
}

static void put_causal(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_bool(w, "llada.attention.causal", true);
	gguf_put_bool(w, "dream.attention.causal", true);
}

static void put_shift_text(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_str(w, SHIFT, "true");
}

static void put_shift_number(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, SHIFT, 1);
}

static void put_long_blocks(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, LENGTH, 257);
}

static void put_block_text(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_str(w, LENGTH, "32");
}

static void put_blocks_alone(struct gguf_writer *w)
{
	gguf_put_u32(w, LENGTH, 32);
}

static void put_large_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, MASK, 96);
}

static void put_huge_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, MASK, UINT32_MAX);
}

static void put_mask_text(struct gguf_writer *w)
{
	gguf_put_str(w, MASK, "<mask>");
}

static void put_no_probability(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_f32(w, STABLE, 1.5f);
}

static void put_canvas(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, "diffusion.canvas_length", 256);
}

static void test_contradictions(void **state)
{
	static const char *const archs[] = { "llada", "dream" };
	static const struct {
		void (*keys)(struct gguf_writer *);
		const char *named, *also;
	} bad[] = {
		{ put_nothing, MASK, "missing" },
		{ put_blocks_alone, MASK, "missing" },
		{ put_large_mask, MASK, "outside the vocabulary of 96" },
		{ put_huge_mask, MASK, "too large" },
		{ put_mask_text, MASK, "" },
		{ put_causal, ".attention.causal", "true" },
		{ put_shift_text, SHIFT, "bool" },
		{ put_shift_number, SHIFT, "bool" },
		{ put_long_blocks, LENGTH, "256" },
		{ put_block_text, LENGTH, "" },
		{ put_no_probability, STABLE, "1.5; a probability" },
		{ put_canvas, "diffusion.canvas_length", "not known" },
	};

	for (unsigned a = 0; a < 2; a++) {
		for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
			struct model_file f = file_of(archs[a], bad[i].keys);

			refused(&f, bad[i].named, bad[i].also);
		}
	}
}

/* Dream has the biases of Qwen2 and no norms of heads. */
static void test_tensors(void **state)
{
	struct model_file f = file_of("dream", put_mask);
	struct model *m = open_file(&f);

	assert_non_null(m->layer[1][WIRE_T_V_BIAS]);
	assert_null(m->layer[1][WIRE_T_O_BIAS]);
	model_close(m);
	f.bias = false;
	refused(&f, "blk.0.attn_q.bias", "missing");
	f.bias = f.qk_norm = true;
	refused(&f, "blk.0.attn_q_norm.weight", "not supported");
}

/* A causal model has no masks to fill. Its diffusion keys may state this, but
 * any other value is refused. */
static void test_causal_with_diffusion_keys(void **state)
{
	struct model_file f = file_of("llama", put_no_shift);

	model_close(open_file(&f));
	f.keys = put_no_blocks;
	model_close(open_file(&f));
	f.keys = put_blocks_alone;
	refused(&f, LENGTH, "supported for llama");
	f.keys = put_shift;
	refused(&f, SHIFT, "supported for llama");
	f.keys = put_shift_text;
	refused(&f, SHIFT, "supported for llama");
}

static void test_other_diffusion_models(void **state)
{
	static const struct {
		const char *arch;
		void (*keys)(struct gguf_writer *);
		const char *why;
	} others[] = {
		{ "rnd1", put_mask, "its layers have experts" },
		{ "diffusion-gemma", put_canvas, "random tokens" },
		{ "llada9", put_canvas, "not supported" },
	};
	char name[64];

	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct model_file f = file_of(others[i].arch, others[i].keys);

		snprintf(name, sizeof(name), "'%s'", others[i].arch);
		refused(&f, name, others[i].why);
		refused(&f, name,
			"supported diffusion models are llada, llada-moe and "
			"dream");
	}
}

/* The error for an architecture that only other runtimes support names this
 * architecture and all supported architectures. */
static void test_other_models(void **state)
{
	static const char *const archs[] = { "gemma3", "phi3", "mistral3",
		"llama4", "gpt-oss", "deepseek2", "mamba", "bert", "t5",
		"qwen35", "stablelm" };
	char name[64];

	for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
		struct model_file f = file_of(archs[i], NULL);

		snprintf(name, sizeof(name),
			"architecture '%s' is not supported", archs[i]);
		refused(&f, name, "supported are llama, qwen2, qwen2moe");
	}
}

static void put_adapter(struct gguf_writer *w)
{
	gguf_put_str(w, "general.type", "adapter");
}

static void put_projector(struct gguf_writer *w)
{
	gguf_put_str(w, "general.type", "mmproj");
}

static void put_matrix(struct gguf_writer *w)
{
	gguf_put_str(w, "general.type", "imatrix");
}

static void put_type_number(struct gguf_writer *w)
{
	gguf_put_u32(w, "general.type", 1);
}

static void test_not_models(void **state)
{
	struct model_file f = file_of("llama", put_adapter);

	refused(&f, "LoRA adapter", "merge it into its model");
	f.keys = put_matrix;
	refused(&f, "importance matrix", "use the file of the model");
	f.keys = put_type_number;
	refused(&f, "general.type", "u32");
	f = file_of("clip", put_projector);
	refused(&f, "projector", "use the file of the language model");
	f.keys = NULL;
	refused(&f, "projector", "use the file of the language model");
}

static void test_found(void **state)
{
	assert_null(model_arch_named("llad"));
	assert_null(model_arch_named("llada2"));
	assert_null(model_arch_named(""));
	assert_string_equal(model_arch_named("llada")->name, "llada");
	assert_true(model_arch_named("qwen3")->causal);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_keys_say),
	cmocka_unit_test(test_thresholds),
	cmocka_unit_test(test_contradictions),
	cmocka_unit_test(test_tensors),
	cmocka_unit_test(test_causal_with_diffusion_keys),
	cmocka_unit_test(test_other_diffusion_models),
	cmocka_unit_test(test_other_models),
	cmocka_unit_test(test_not_models),
	cmocka_unit_test(test_found),
};

TEST_FILE(tests)
