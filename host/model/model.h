/*
 * A model file, GGUF or a flash image of one, opened for use: its checked
 * shape, and its tensors. Supported architectures are llama, qwen2 and qwen3,
 * and llada and dream, which are llama and qwen2 with bidirectional attention,
 * everywhere or within blocks. Other architectures, and keys that change the
 * arithmetic in an unsupported way, are refused by name. Read-only after
 * opening; any thread may read it.
 */
#ifndef HOST_MODEL_MODEL_H
#define HOST_MODEL_MODEL_H

#include "ipc/wire.h"
#include "tensor/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct model_arch;
struct packed;

struct model {
	struct gguf *gguf; /* owned */
	char arch[16];
	const struct model_arch *kind; /* of the same name */
	uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_rot, n_ff;
	uint32_t n_vocab;
	uint32_t n_ctx; /* context length of its training */
	float norm_eps;
	bool rope_neox;
	bool causal; /* a position attends to itself and earlier ones only */
	int32_t mask_token; /* mask of a diffusion model; -1: none */
	/* Diffusion model: a row predicts the token after its position, as in a
	 * causal model (Ye et al., "Dream 7B", 2025), not the one at it. */
	bool shift_logits;
	/*
	 * Block diffusion (Arriola et al., "Block Diffusion", 2025): an
	 * answer's positions, from its first, are blocks of this length. A
	 * block attends to itself in both directions and to everything before
	 * it; a prompt is causal. 0: all positions of a diffusion model attend
	 * to each other.
	 */
	uint32_t block_length;
	/* Number of another model's layers that its own layers follow: its rows
	 * begin with the states after those (model_tail). 0: with
	 * embeddings. */
	uint32_t layers_before;
	float *rope_freq; /* [n_rot/2] radians a position, scaling applied */

	const struct gguf_tensor *token_embd;  /* [n_vocab][n_embd] */
	const struct gguf_tensor *output_norm; /* [n_embd] f32 */
	const struct gguf_tensor *output;      /* token_embd when tied */
	/* [n_layer][WIRE_T_COUNT]; NULL: the model has none */
	const struct gguf_tensor *(*layer)[WIRE_T_COUNT];

	/* For a flash image (owned), else NULL. Then the layers' tensors have
	 * no data, nor has a packed output matrix, nor an embedding that stays
	 * on flash. */
	struct packed *packed;
};

int model_open(struct model **out, const char *path, struct err *);
/* Open a file in which the tensors named in extra[] (NULL-terminated) replace
 * the output matrix; the caller handles these tensors. */
int model_open_but(struct model **out, const char *path,
	const char *const *extra, struct err *);
/*
 * `base` with its last layers replaced: layers from `first` on come from
 * another file, `own`, in tensors of the usual names; tensors of other names
 * are ignored. `base` and `own` must outlive the result. -ENOTSUP if base is a
 * flash image, whose layers have no data in memory.
 */
int model_graft(struct model **out, const struct model *base,
	const struct gguf *own, uint32_t first, struct err *);
/* The layers of `of` from `first` on as a model of their own; `of` must outlive
 * it. */
int model_tail(struct model **out, const struct model *of, uint32_t first,
	struct err *);
void model_close(struct model *);

/*
 * -EFBIG: `what` has n tokens and needs `need` positions, more than the context
 * has. The message recommends a larger context only if the model was trained
 * for one.
 */
int model_no_room(const struct model *, const char *what, size_t n,
	uint64_t need, uint32_t context, struct err *);

/* Row `token` of the embedding as float32 [n_embd]; token < n_vocab. Errors of
 * packed_embed, if the embedding stays on flash. */
int model_embed(const struct model *, uint32_t token, float *out, struct err *);

/* Load the embedding into memory, for callers that embed too often for a read
 * each time; after that model_embed cannot fail. Call before other threads read
 * the model. */
int model_keep_embedding(struct model *, struct err *);

#endif
