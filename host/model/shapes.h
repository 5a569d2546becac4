/*
 * Shapes of models by name, from their published configurations, for model
 * files with random weights (tandem synth) and for the cost model
 * (host/session/pricing.h). Constant; any thread.
 */
#ifndef HOST_MODEL_SHAPES_H
#define HOST_MODEL_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

/* The family that a shape's special tokens and chat template come from. */
enum shape_vocab { SHAPE_QWEN, SHAPE_LLAMA3, SHAPE_LLADA, SHAPE_DREAM };

struct shape {
	const char *name; /* "qwen2.5-1.5b", as in options */
	const char *arch, *title;
	/* first_special: tokens from this id on are special */
	uint32_t n_vocab, first_special;
	uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_ctx;
	float rope_base, norm_eps;
	/* Llama 3.1's scaling of low frequencies; 0: none. */
	float rope_factor;
	bool tied; /* input and output share one matrix */
	bool qkv_bias, qk_norm;
	/* of block diffusion; 0: another kind of model */
	uint32_t block_length;
	enum shape_vocab vocab;
};

#define SHAPES 16
extern const struct shape shapes[SHAPES];

/* Their names, in the same order; NULL-terminated. */
extern const char *const shape_names[SHAPES + 1];

#endif
