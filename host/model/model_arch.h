/*
 * The architectures of model files (general.architecture) that are supported,
 * and what sets one apart from another. All are one transformer: norms by the
 * root mean square before attention and feed-forward, rotated positions, gated
 * feed-forward. Constant; any thread.
 */
#ifndef HOST_MODEL_MODEL_ARCH_H
#define HOST_MODEL_MODEL_ARCH_H

#include "tensor/gguf.h"

#include <stdbool.h>

struct err;

struct model_arch {
	const char *name;
	bool causal;    /* a position sees itself and those before it */
	bool rope_neox; /* a rotated pair lies half a head apart */
	bool qkv_bias;  /* of Q, K and V: required; others may have them */
	bool head_norm; /* of Q and K: required; others must not */
	/* Of a diffusion model: what its rows say where a file says nothing. */
	bool shift_logits;
};

/* NULL: not supported. */
const struct model_arch *model_arch_find(struct gguf_str name);
const struct model_arch *model_arch_named(const char *name);

/* Whether a key is one that diffusion models of any kind have. */
bool model_arch_is_diffusion_key(struct gguf_str key);

/* -ENOTSUP: why a file of that architecture is refused. */
int model_arch_refuse(struct gguf_str name, const struct gguf *, struct err *);

#endif
