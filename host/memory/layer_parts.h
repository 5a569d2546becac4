/*
 * These functions cut a layer into parts, for staging slots (the buffers into
 * which streamed layers are read, host/memory/staging.h) that are smaller than
 * a layer. Each part is a range of the layer's bytes in the flash image,
 * together with the share of the computation that the device does with these
 * bytes (struct wire_part). Attention is always whole, in the first part. The
 * matrices gate, up and down are cut between tiles of rows, so that all parts
 * have about the same size.
 */
#ifndef HOST_MEMORY_LAYER_PARTS_H
#define HOST_MEMORY_LAYER_PARTS_H

#include "ipc/wire.h"

#include <stdint.h>

#define LAYER_PARTS_MAX 8

struct layer_part {
	struct wire_part of;
	/* the part is the bytes [from, to) of the layer's extent (the layer's
	 * bytes in the flash image) */
	uint64_t from, to;
};

/*
 * Cut a layer into up to n parts, 1 <= n <= LAYER_PARTS_MAX. The layer's extent
 * has `bytes` bytes and contains the given tensors. Returns the number of
 * parts, which is less than n if the layer is small.
 */
unsigned layer_parts(const struct wire_tensor[WIRE_T_COUNT], uint64_t bytes,
	unsigned n, struct layer_part out[LAYER_PARTS_MAX]);

/* The rows of a tensor that are in a part. `rows` is 0 if the part has no row
 * of the tensor; `offset` is the offset of the first row in the layer's
 * extent. */
struct wire_tensor layer_part_tensor(const struct layer_part *,
	const struct wire_tensor[WIRE_T_COUNT], unsigned tensor);

#endif
