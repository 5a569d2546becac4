/*
 * The layers of a model cut into blocks of consecutive ones, each with its
 * tensors copied from the model file into one shared buffer that the device
 * reads by DMA (tandem:weights0, ...). A block is the unit of everything on
 * the device: of a graph, of a request, of what is mapped and evicted.
 *
 * In the buffer lie, each 64-byte aligned, the rope frequencies and then the
 * tensors layer by layer in the wire's order, in the model file's bytes.
 */
#ifndef HOST_WEIGHTS_H
#define HOST_WEIGHTS_H

#include "ipc/wire.h"

#include <stdint.h>

struct buffer;
struct err;
struct model;

struct block {
	uint32_t first_layer, n_layers;
	uint32_t bytes;
	struct wire_tensor rope_freq;
	struct wire_tensor (*tensor)[WIRE_T_COUNT]; /* [n_layers] */
	struct buffer *buffer;                      /* NULL until loaded */
};

/*
 * Lay out the blocks: at least `want` of them (or one a layer), and more
 * while one exceeds `limit` bytes; a single layer may exceed it. *blocks is
 * the caller's, to be released by weights_release.
 */
int weights_cut(const struct model *, uint32_t want, uint64_t limit,
	struct block **blocks, uint32_t *n, struct err *);

/* Create every block's buffer and fill it. Shows progress. */
int weights_load(
	const struct model *, struct block *blocks, uint32_t n, struct err *);

void weights_release(struct block *blocks, uint32_t n);

#endif
