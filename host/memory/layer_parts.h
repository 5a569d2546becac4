/*
 * A layer cut into parts, for staging slots that hold no whole one: each a run
 * of its bytes in the flash image, and what the device computes with it
 * (struct wire_part). Attention is never cut; gate, up and down are, after
 * whole tiles of rows, so that parts are about the same size.
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
 * At most n parts, 1 to LAYER_PARTS_MAX, of a layer of so many bytes whose
 * tensors lie so in its extent; returns how many, which are fewer where it is
 * small.
 */
unsigned layer_parts(const struct wire_tensor[WIRE_T_COUNT], uint64_t bytes,
	unsigned n, struct layer_part out[LAYER_PARTS_MAX]);

/* What the tensor has in the part: rows 0 where nothing; `offset` is that in
 * the layer's extent of the first row that is in it. */
struct wire_tensor layer_part_tensor(const struct layer_part *,
	const struct wire_tensor[WIRE_T_COUNT], unsigned tensor);

#endif
