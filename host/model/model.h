/*
 * A model file, GGUF or a flash image of one, opened for use: its shape,
 * checked, and where its tensors are. Architectures llama, qwen2 and qwen3, and
 * llada and dream, which are llama and qwen2 with attention in both directions,
 * everywhere or within blocks; another one, or a key that changes the
 * arithmetic in a way this program does not know, is refused by name. Read-only
 * after opening; any thread may read it.
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
	uint32_t n_ctx; /* context the model was trained for */
	float norm_eps;
	bool rope_neox;
	bool causal;        /* a position sees itself and those before it */
	int32_t mask_token; /* what a diffusion model fills; -1: no such */
	/* Of a diffusion model: a row says what stands behind its position, as
	 * that of a causal one does (Ye et al., "Dream 7B", 2025), not at it.
	 */
	bool shift_logits;
	/*
	 * Of block diffusion (Arriola et al., "Block Diffusion", 2025): an
	 * answer's positions, from its first, are blocks of so many. A block
	 * sees itself both ways and all before it; a prompt is causal. 0: all
	 * positions of a diffusion model see one another.
	 */
	uint32_t block_length;
	/* Layers of another model that its own stand behind: its rows begin
	 * with the states of these (model_tail). 0: with embeddings. */
	uint32_t behind;
	float *rope_freq; /* [n_rot/2] radians a position, scaling applied */

	const struct gguf_tensor *token_embd;  /* [n_vocab][n_embd] */
	const struct gguf_tensor *output_norm; /* [n_embd] f32 */
	const struct gguf_tensor *output;      /* token_embd when tied */
	/* [n_layer][WIRE_T_COUNT]; NULL: the model has none */
	const struct gguf_tensor *(*layer)[WIRE_T_COUNT];

	/* Of a flash image (owned), else NULL. Then the layers' tensors have
	 * no data, nor has an output matrix that is packed, nor an embedding
	 * that stays on flash. */
	struct packed *packed;
};

int model_open(struct model **out, const char *path, struct err *);
/* A file whose tensors of the names in extra[] (NULL-terminated) are the
 * caller's: of what stands in the place of the output matrix. */
int model_open_but(struct model **out, const char *path,
	const char *const *extra, struct err *);
/*
 * `base`, which outlives it as `own` does, but for its last layers: from layer
 * `first` on they are those of another file, in tensors of the usual names, of
 * which the others are left alone. -ENOTSUP where base is a flash image, whose
 * layers are not at hand.
 */
int model_graft(struct model **out, const struct model *base,
	const struct gguf *own, uint32_t first, struct err *);
/* The layers of `of`, which outlives it, from `first` on, by themselves. */
int model_tail(struct model **out, const struct model *of, uint32_t first,
	struct err *);
void model_close(struct model *);

/*
 * -EFBIG: `what` has n tokens, which do not fit into a context of so many; it
 * wants `need` positions. A larger context is advised only as far as the model
 * was trained for one.
 */
int model_no_room(const struct model *, const char *what, size_t n,
	uint64_t need, uint32_t context, struct err *);

/* Row `token` of the embedding as float32 [n_embd]; token < n_vocab. What
 * packed_embed says, where the embedding stays on flash. */
int model_embed(const struct model *, uint32_t token, float *out, struct err *);

/* For who embeds so often that a read each time is too much: afterwards the
 * embedding is in memory, and model_embed does not fail. Before other threads
 * read the model. */
int model_keep_embedding(struct model *, struct err *);

#endif
