/*
 * Weights of a model that the host computes, stored in the form that the host's
 * kernels read, each aligned to DRAFT_ALIGN. Vectors are float32. Matrices are
 * in tiles for int8 arithmetic; otherwise they are float32 where the size
 * allows. Decoding a quantized row costs nearly as much as multiplying by it,
 * and a draft model multiplies by every row for every token, so the matrices of
 * a small model are decoded once, at opening. A large matrix without a tiled
 * form is used in place, in the mapped model file.
 */
#ifndef HOST_DRAFT_DRAFT_WEIGHTS_H
#define HOST_DRAFT_DRAFT_WEIGHTS_H

#include "host/draft/draft_model.h"
#include "ipc/wire.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct workers;

/* Alignment of all arrays that kernels read: a load that straddles two cache
 * lines takes two accesses. */
#define DRAFT_ALIGN 64

struct draft_tensor {
	/* NULL if the model has no such tensor; a vector is a float * */
	const void *data;
	enum dtype type;
};

struct draft_weights {
	uint8_t *packed;                            /* owned */
	struct draft_tensor (*layer)[WIRE_T_COUNT]; /* [n_layer] */
	struct draft_tensor output_norm, output;
	/* of an EAGLE head: for the embedding, the target's final state, and
	 * their combination */
	struct draft_tensor embd_norm, target_norm, fc;
};

/* Load or decode the weights of `model`, which must outlive them. Returns 0 or
 * a negative errno. */
int draft_weights_init(struct draft_weights *, const struct model *,
	enum draft_arithmetic, struct workers *, struct err *);
void draft_weights_release(struct draft_weights *);

#endif
