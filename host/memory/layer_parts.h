/*
 * A layer cut into parts, for staging slots smaller than a layer: each part is
 * a range of the layer's bytes in the flash image, with the device's share of
 * the computation (struct wire_part). Attention is never cut; gate, up and down
 * are cut after whole tiles of rows, so that parts are about the same size.
 */
#ifndef HOST_MEMORY_LAYER_PARTS_H
#define HOST_MEMORY_LAYER_PARTS_H

#include "ipc/wire.h"

#include <stdint.h>

#define LAYER_PARTS_MAX 8

struct layer_part {
	struct wire_part of;
	uint64_t from, to; /* bytes of the layer's extent */
};

/*
 * Cut a layer of `bytes` bytes, with these tensors in its extent, into at most
 * n parts, 1 to LAYER_PARTS_MAX; returns their number, fewer if the layer is
 * small.
 */
unsigned layer_parts(const struct wire_tensor[WIRE_T_COUNT], uint64_t bytes,
	unsigned n, struct layer_part out[LAYER_PARTS_MAX]);

/* The part's share of a tensor: rows 0 if none; `offset` is the first row's in
 * the layer's extent. */
struct wire_tensor layer_part_tensor(const struct layer_part *,
	const struct wire_tensor[WIRE_T_COUNT], unsigned tensor);

#endif
