/*
 * The layers of a model cut into blocks of consecutive layers, each with its
 * tensors copied from the model file, or read unchanged from a flash image,
 * into one shared buffer that the device reads by DMA (tandem:weights0, ...). A
 * block is the unit of the device: of graphs, of requests, of mapping and
 * eviction. Streamed layers (host/memory/staging.h) are blocks of one layer,
 * whose weights are in varying staging slots, or of a part of one
 * (host/memory/layer_parts.h).
 *
 * A buffer has, each 64-byte aligned, the rope frequencies and then the tensors
 * layer by layer in the wire's order: vectors as float32, matrices in the
 * requested layout; those of an image in its own.
 */
#ifndef HOST_MEMORY_WEIGHTS_H
#define HOST_MEMORY_WEIGHTS_H

#include "host/model/residency.h"
#include "ipc/wire.h"
#include "tensor/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct model;
struct progress_sink;
struct workers;

struct block {
	uint32_t first_layer, n_layers;
	struct wire_part part; /* a part of one layer; or all of all layers */
	uint32_t bytes;
	struct wire_tensor rope_freq;
	struct wire_tensor (*tensor)[WIRE_T_COUNT]; /* [n_layers] */
	bool streamed;         /* in staging slots, without a buffer */
	struct buffer *buffer; /* NULL until loaded */
	/* Offset in a buffer that it shares with other blocks, after
	 * weights_share. */
	uint32_t at;
	bool shares;
	/* Number of a loaded block's values, from a model file, that are not
	 * finite. */
	uint64_t not_finite;
};

/* Whether it begins at a layer's begin, and ends at a layer's end. */
static inline bool block_begins(const struct block *b)
{
	return !b->part.first;
}

static inline bool block_ends(const struct block *b)
{
	return b->part.end == WIRE_T_COUNT;
}

/*
 * Lay out the blocks, first resident, then streamed ones. There are at least
 * `want` resident blocks (or one per layer), equally many in each run, and more
 * while one exceeds `limit` bytes; a single layer may exceed it. No strip of
 * tiles exceeds `strip_max` bytes; -EFBIG for an image with larger strips. The
 * caller owns *blocks (weights_release).
 */
struct weights_plan {
	enum layout layout;
	size_t strip_max;
	uint32_t want;
	uint64_t limit;
	struct residency residency;
	uint32_t cut;   /* a block begins at this layer */
	unsigned parts; /* parts of a streamed layer, at most */
};
int weights_cut(const struct model *, const struct weights_plan *,
	struct block **blocks, uint32_t *n, struct err *);

/* Bytes before the layer of a streamed block: whole pages. */
size_t weights_head_bytes(const struct model *);
/* Fill them, at the start of a staging slot. */
void weights_fill_head(const struct model *, void *dst);

/* Before loading: place the block at byte `at`, a multiple of WEIGHTS_ALIGN, of
 * a buffer that outlives the blocks. */
#define WEIGHTS_ALIGN 64
void weights_share(struct block *, struct buffer *, uint32_t at);

/* A loaded block's bytes, for the CPU. */
const uint8_t *weights_bytes(const struct block *);

/* Create and fill the buffers of all blocks that are neither streamed nor
 * shared, on the workers. */
int weights_load(const struct model *, struct workers *, struct block *blocks,
	uint32_t n, const struct progress_sink *, struct err *);

void weights_release(struct block *blocks, uint32_t n);

#endif
