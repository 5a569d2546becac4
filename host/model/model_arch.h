/*
 * The supported architectures of model files (general.architecture) and their
 * differences. All are one kind of transformer: RMS norms before attention and
 * feed-forward, rotary positions, gated feed-forward. Constant; any thread.
 */
#ifndef HOST_MODEL_MODEL_ARCH_H
#define HOST_MODEL_MODEL_ARCH_H

#include "tensor/gguf.h"

#include <stdbool.h>

struct err;

struct model_arch {
	const char *name;
	bool causal; /* a position attends to itself and earlier ones only */
	/* the two values of a rotated pair are half a head apart */
	bool rope_neox;
	bool qkv_bias;  /* of Q, K and V: required; others may have them */
	bool head_norm; /* of Q and K: required; others must not */
	/* Diffusion models: default for the key diffusion.shift_logits. */
	bool shift_logits;
};

/* NULL: not supported. */
const struct model_arch *model_arch_find(struct gguf_str name);
const struct model_arch *model_arch_named(const char *name);

/* Whether a key is one of those for diffusion models. */
bool model_arch_is_diffusion_key(struct gguf_str key);

/* -ENOTSUP with the reason why the architecture is not supported. */
int model_arch_refuse(struct gguf_str name, const struct gguf *, struct err *);

#endif
