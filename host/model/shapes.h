/*
 * Shapes (dimensions) of known models by name, from their published
 * configurations, for model files with random weights (tandem synth) and for
 * the cost model (host/session/pricing.h). The tables are constant, so any
 * thread may read them.
 */
#ifndef HOST_MODEL_SHAPES_H
#define HOST_MODEL_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

/* The model family from which a shape takes special tokens and chat
 * template. */
enum shape_vocab {
	SHAPE_QWEN,
	SHAPE_LLAMA3,
	SHAPE_LLADA,
	SHAPE_DREAM,
	SHAPE_OLMO
};

struct shape {
	const char *name; /* as in options: "qwen2.5-1.5b" */
	const char *arch, *title;
	/* first_special: the lowest id of a special token */
	uint32_t n_vocab, first_special;
	uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_ctx;
	float rope_base, norm_eps;
	/*
	 * Llama 3.1's factor for scaling low RoPE frequencies; 0 means no
	 * scaling.
	 */
	float rope_factor;
	/* whether the token embedding is also the output matrix */
	bool tied;
	bool qkv_bias, qk_norm;
	/* block length of block diffusion; 0 for other models */
	uint32_t block_length;
	enum shape_vocab vocab;
	/* n_expert: number of experts of a layer, each of width n_ff. n_used:
	 * number of experts that each token uses. Both are 0 for a model
	 * without experts. */
	uint32_t n_expert, n_used;
	/* width of the shared expert; 0 for models without shared expert */
	uint32_t n_shared;
};

#define SHAPES 23
extern const struct shape shapes[SHAPES];

/* The names of `shapes`, in the same order; NULL-terminated. */
extern const char *const shape_names[SHAPES + 1];
/* Names of the shapes without experts: the first names of shape_names. The cost
 * model can compute costs only for these shapes. NULL-terminated. */
extern const char *const dense_shape_names[];

/* The shape with this name. The name must exist. */
const struct shape *shape_named(const char *name);

#endif
