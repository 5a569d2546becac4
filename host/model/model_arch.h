/*
 * The supported architectures of model files (general.architecture) and their
 * differences. All of them are transformers with RMS norms before attention and
 * feed-forward, rotary positions, and a gated feed-forward. The tables are
 * constant, so any thread may use them.
 */
#ifndef HOST_MODEL_MODEL_ARCH_H
#define HOST_MODEL_MODEL_ARCH_H

#include "tensor/gguf.h"

#include <stdbool.h>

struct err;

struct model_arch {
	const char *name;
	/* whether a position attends only to itself and earlier positions */
	bool causal;
	/* whether the two values of a pair that RoPE rotates are half a head
	 * apart; if false, they are adjacent */
	bool rope_neox;
	/* whether Q, K and V must have a bias; if false, a bias is optional */
	bool qkv_bias;
	/* whether Q and K must have a norm; if false, such a norm is an
	 * error */
	bool head_norm;
	/* with head_norm: whether there is one norm for all heads together; if
	 * false, there is one per head */
	bool whole_norm;
	/* default of diffusion.shift_logits, for files without this key */
	bool shift_logits;
	/* Whether layers have experts (model.h): never, optionally or always.
	 * norm_picks: whether the weights of a token's experts are divided by
	 * the sum of these weights if the file does not have the key
	 * expert_weights_norm. */
	enum { EXPERTS_NEVER, EXPERTS_MAY, EXPERTS_MUST } experts;
	bool norm_picks;
	/* with experts: whether each layer also has a shared expert
	 * (model.h) */
	bool shared;
	/* whether a model is an EAGLE head: one layer that drafts for a target
	 * model, and not a complete model (model_open) */
	bool eagle;
};

/* The architecture with this name, or NULL if it is not supported. */
const struct model_arch *model_arch_find(struct gguf_str name);
const struct model_arch *model_arch_named(const char *name);

/* Check the key general.type, because a GGUF file can also be an adapter or a
 * projector. Returns 0, -ENOTSUP for a file that is not a model, or -EINVAL if
 * the key is not a string. */
int model_arch_check_type(const struct gguf *, struct err *);

/* Set an error with the reason why the architecture is not supported. Returns
 * -ENOTSUP. */
int model_arch_refuse(struct gguf_str name, const struct gguf *, struct err *);

#endif
