/*
 * Weights of a model that runs on the host, in the form that the host's kernels
 * read, each array aligned to DRAFT_ALIGN. Vectors are float32. For int8
 * arithmetic, matrices whose type has a tiled form are stored in tiles. The
 * other matrices of a small model are decoded to float32 once, at opening:
 * decoding a quantized row takes nearly as long as multiplying by the row, and
 * a draft model multiplies by every row for every token. The other matrices of
 * a larger model are not copied: kernels read them in the mapped model file.
 */
#ifndef HOST_DRAFT_DRAFT_WEIGHTS_H
#define HOST_DRAFT_DRAFT_WEIGHTS_H

#include "host/draft/draft_model.h"
#include "ipc/wire.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct workers;

/* Alignment of all arrays that kernels read, so that no load crosses a cache
 * line. */
#define DRAFT_ALIGN 64

struct draft_tensor {
	/* NULL if the model does not have this tensor; for a vector, an array
	 * of floats */
	const void *data;
	enum dtype type;
};

struct draft_weights {
	uint8_t *packed; /* memory of all weights that were copied; owned */
	struct draft_tensor (*layer)[WIRE_T_COUNT]; /* [n_layer] */
	struct draft_tensor output_norm, output;
	/* for EAGLE heads only: weights of the norms of the token's embedding
	 * and of the target's final state, and the matrix that combines the two
	 * normed vectors */
	struct draft_tensor embd_norm, target_norm, fc;
};

/* Load or decode the weights of a model. The model must outlive the struct.
 * Returns 0 or a negative errno. */
int draft_weights_init(struct draft_weights *, const struct model *,
	enum draft_arithmetic, struct workers *, struct err *);
void draft_weights_release(struct draft_weights *);

#endif
