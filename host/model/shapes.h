/*
 * Shapes of models by name, from their published configurations: what a model
 * file of random weights is made like (tandem synth), and what passes are
 * priced as (host/session/pricing.h). Constant; any thread.
 */
#ifndef HOST_MODEL_SHAPES_H
#define HOST_MODEL_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

/* Whose special tokens and chat template a shape's files have. */
enum shape_vocab { SHAPE_QWEN, SHAPE_LLAMA3, SHAPE_LLADA, SHAPE_DREAM };

struct shape {
	const char *name; /* "qwen2.5-1.5b", as options have it */
	const char *arch, *title;
	uint32_t n_vocab, first_special; /* tokens from which on are special */
	uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_ctx;
	float rope_base, norm_eps;
	/* Long waves are slowed by so much (Llama 3.1's scaling); 0: none. */
	float rope_factor;
	bool tied; /* input and output share one matrix */
	bool qkv_bias, qk_norm;
	uint32_t block_length; /* of block diffusion; 0: another model */
	enum shape_vocab vocab;
};

#define SHAPES 16
extern const struct shape shapes[SHAPES];

/* Their names, in the same order; NULL-terminated. */
extern const char *const shape_names[SHAPES + 1];

#endif
