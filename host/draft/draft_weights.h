/*
 * The weights of a model that the host runs by itself, as its kernels want
 * them, each aligned: vectors float32; matrices in tiles with int8 arithmetic,
 * else float32 where that is affordable. Decoding a quantized row costs nearly
 * as much as multiplying by it, and a draft model multiplies by every row for
 * every token; so the matrices of a small model are decoded when it is opened.
 * What has no tiles and is large stays as and where the model file has it.
 */
#ifndef HOST_DRAFT_DRAFT_WEIGHTS_H
#define HOST_DRAFT_DRAFT_WEIGHTS_H

#include "host/draft/draft_model.h"
#include "ipc/wire.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct workers;

/* Of all that kernels read: a load that straddles cache lines takes two. */
#define DRAFT_ALIGN 64

struct draft_tensor {
	const void *data; /* NULL: the model has none; a vector is float * */
	enum dtype type;
};

struct draft_weights {
	uint8_t *packed;                            /* owned */
	struct draft_tensor (*layer)[WIRE_T_COUNT]; /* [n_layer] */
	struct draft_tensor output_norm, output;
};

/* `model` must outlive them. */
int draft_weights_init(struct draft_weights *, const struct model *,
	enum draft_arithmetic, struct workers *, struct err *);
void draft_weights_release(struct draft_weights *);

#endif
