/*
 * A model file opened for use: its checked shape (dimensions), and its tensors.
 * The file is GGUF, or a flash image made from a GGUF file. The supported
 * architectures are llama, qwen2, qwen2moe, qwen3, qwen3moe, olmoe, llada,
 * llada-moe and dream. llada has the layers of llama, llada-moe has those of
 * qwen3moe, and dream has those of qwen2; all three use bidirectional
 * attention, which may be limited to blocks. A draft model may also be an EAGLE
 * head, tandem-eagle (model_open). Opening fails for any other architecture,
 * and for a key that changes the arithmetic in an unsupported way; the error
 * message names the architecture or key. A model is read-only after opening, so
 * any thread may read it.
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
	/* GGUF header of the file, owned; NULL in a model made by model_graft
	 * or model_tail */
	struct gguf *gguf;
	char arch[16];
	const struct model_arch *kind; /* description of the architecture */
	uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_rot, n_ff;
	/*
	 * A mixture of experts: every layer has n_expert feed-forward networks
	 * of width n_ff, of which each token uses n_used. n_expert and n_used
	 * are 0 for other models.
	 */
	uint32_t n_expert, n_used;
	/* Width of the shared expert, a feed-forward network that every token
	 * uses; 0 for models without a shared expert. */
	uint32_t n_shared;
	/* whether to divide the weights of a token's experts by the sum of
	 * these weights */
	bool norm_picks;
	uint32_t n_vocab;
	uint32_t n_ctx; /* context length with which the model was trained */
	float norm_eps;
	bool rope_neox;
	/* whether a position attends only to itself and earlier positions */
	bool causal;
	int32_t mask_token; /* mask token of a diffusion model, else -1 */
	/*
	 * Diffusion models only. True: the row of a position predicts the token
	 * of the next position, as in a causal model (Ye et al., "Dream 7B",
	 * 2025). False: the row predicts the token of its own position.
	 */
	bool shift_logits;
	/*
	 * Block diffusion (Arriola et al., "Block Diffusion", 2025): the answer
	 * is divided into blocks of this many positions; the first block begins
	 * at the first position of the answer. A position of a block attends to
	 * the whole block and to everything before the block; in the prompt,
	 * attention is causal. 0 for causal models, and for diffusion models in
	 * which all positions attend to each other.
	 */
	uint32_t block_length;
	/*
	 * Probability thresholds of a diffusion model, from the keys
	 * diffusion.visible and diffusion.stable. Other positions may attend to
	 * a token whose probability is at least `visible`; a token whose
	 * probability is at least `stable` is final (host/method/stages.h).
	 * Negative if the file does not have the key.
	 */
	double visible, stable;
	/*
	 * In a model made by model_tail: number of layers of the original model
	 * before the first layer of this model. The input of this model is then
	 * the hidden states after those layers. 0 if the input is embeddings.
	 */
	uint32_t layers_before;
	/* [n_rot/2] RoPE frequencies in radians per position, after scaling */
	float *rope_freq;

	const struct gguf_tensor *token_embd;  /* [n_vocab][n_embd] */
	const struct gguf_tensor *output_norm; /* [n_embd] f32 */
	/* equal to token_embd if the file has no output matrix */
	const struct gguf_tensor *output;
	/* [n_layer][WIRE_T_COUNT]; NULL for a tensor that the model does not
	 * have. With experts, gate, up and down have the matrices of all
	 * experts of the layer, one after another: dim[2] is n_expert. */
	const struct gguf_tensor *(*layer)[WIRE_T_COUNT];

	/* EAGLE heads only. target: the target model, which owns token_embd and
	 * output. eagle_norm: weights of the norm of the embedding, [n_embd].
	 * eagle_fc: [n_embd][2 * n_embd]. NULL for other models. */
	const struct model *target;
	const struct gguf_tensor *eagle_norm, *eagle_fc;

	/*
	 * The flash image; NULL for a GGUF file. With a flash image, `data` is
	 * NULL in the tensors of the image's layers, in an output matrix that
	 * has an extent (range of the image) of its own, and in an embedding
	 * that stays on flash. The model owns the image if it owns `gguf`; if
	 * `gguf` is NULL, another model owns the image.
	 */
	struct packed *packed;
	/* Number of layers, from the first layer on, that are in the flash
	 * image: all layers for an image, 0 for a GGUF file, some for a model
	 * made by model_graft. */
	uint32_t layers_packed;
};

/*
 * Open a model. `extra` and `target` are usually NULL; at most one of them is
 * set:
 *
 * extra[] (NULL-terminated): the file has the tensors with these names instead
 * of an output matrix. The model ignores these tensors; the caller reads them.
 *
 * target: the file is a draft model for `target`, and may be an EAGLE head
 * (host/draft/draft_model.h): a file of architecture tandem-eagle with one
 * layer. The target must outlive the result. Returns -EINVAL if the head was
 * made for another target.
 */
int model_open(struct model **out, const char *path, const char *const *extra,
	const struct model *target, struct err *);
/*
 * Make a model from two files: the layers before layer `first` come from
 * `base`, the layers from `first` on come from `own`, in tensors with the usual
 * names. Other tensors of `own` are ignored. `base` and `own` must outlive the
 * result. Returns 0 or a negative errno.
 */
int model_graft(struct model **out, const struct model *base,
	const struct gguf *own, uint32_t first, struct err *);
/* Make a model that consists of the layers of `of` from layer `first` on. None
 * of these layers may be in a flash image. `of` must outlive the result.
 * Returns 0 or -ENOMEM. */
int model_tail(struct model **out, const struct model *of, uint32_t first,
	struct err *);
void model_close(struct model *);

/*
 * Set an error: `what` (such as "the prompt") has n tokens and needs `need`
 * positions, but the context has only `context` positions. The message
 * recommends a larger context only if the model was trained with a larger
 * context. Returns -EFBIG.
 */
int model_no_room(const struct model *, const char *what, size_t n,
	uint64_t need, uint32_t context, struct err *);

/* Write row `token` < n_vocab of the embedding to out[n_embd], as float32.
 * Returns 0, or an error of packed_embed if the embedding stays on flash. */
int model_embed(const struct model *, uint32_t token, float *out, struct err *);

/*
 * Load an embedding that stays on flash into memory, for callers that read the
 * embedding so often that reads from flash would be too slow. After that
 * model_embed cannot fail. For an EAGLE head, this loads the embedding of its
 * target. Call this before other threads read the model. Returns 0 or a
 * negative errno.
 */
int model_keep_embedding(const struct model *, struct err *);

#endif
