/*
 * Weights of a model that the host computes, in the form that its kernels read,
 * each aligned: vectors in float32; matrices in tiles with int8 arithmetic,
 * else in float32 where the size allows. Decoding a quantized row costs nearly
 * as much as multiplying by it, and a draft model multiplies by every row for
 * every token; so the matrices of a small model are decoded when it is opened.
 * A large matrix without a tiled form is used in place, in the model file.
 */
#ifndef HOST_DRAFT_DRAFT_WEIGHTS_H
#define HOST_DRAFT_DRAFT_WEIGHTS_H

#include "host/draft/draft_model.h"
#include "ipc/wire.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct workers;

/* Alignment of all that kernels read: a load that straddles cache lines takes
 * two. */
#define DRAFT_ALIGN 64

struct draft_tensor {
	const void *data; /* NULL: the model has none; a vector is a float * */
	enum dtype type;
};

struct draft_weights {
	uint8_t *packed;                            /* owned */
	struct draft_tensor (*layer)[WIRE_T_COUNT]; /* [n_layer] */
	struct draft_tensor output_norm, output;
};

/* `model` must outlive the weights. */
int draft_weights_init(struct draft_weights *, const struct model *,
	enum draft_arithmetic, struct workers *, struct err *);
void draft_weights_release(struct draft_weights *);

#endif
