/*
 * The layers of a model cut into blocks of consecutive ones, each with its
 * tensors copied from the model file, or read as they are from a flash image,
 * into one shared buffer that the device reads by DMA (tandem:weights0, ...). A
 * block is the unit of everything on the device: of a graph, of a request, of
 * what is mapped and evicted. Layers that are streamed (host/memory/staging.h)
 * are blocks of one, whose weights lie in whatever staging slot they came to,
 * or several, each a part of the layer (host/memory/layer_parts.h).
 *
 * In the buffer lie, each 64-byte aligned, the rope frequencies and then the
 * tensors layer by layer in the wire's order: vectors as float32, matrices in
 * the layout asked for; those of an image in its own.
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
	struct wire_part part; /* of one layer; or all of all */
	uint32_t bytes;
	struct wire_tensor rope_freq;
	struct wire_tensor (*tensor)[WIRE_T_COUNT]; /* [n_layers] */
	bool streamed;         /* lies in staging slots, not in a buffer */
	struct buffer *buffer; /* NULL until loaded */
	/* Where it begins in its buffer, which is not its own then but shared
	 * with others: what weights_share says. */
	uint32_t at;
	bool shares;
	/* Of its values in a model file, once loaded: infinite or no number. */
	uint64_t not_finite;
};

/* Whether it begins with a layer, and ends with one. */
static inline bool block_begins(const struct block *b)
{
	return !b->part.first;
}

static inline bool block_ends(const struct block *b)
{
	return b->part.end == WIRE_T_COUNT;
}

/*
 * Lay out the blocks, first those that stay in memory, then those that are
 * streamed: of the former at least `want` (or one a layer), as many in each run
 * of them, and more while one exceeds `limit` bytes; a single layer may exceed
 * it. No strip of tiles is larger than `strip_max` bytes; an image that has
 * such is refused with -EFBIG. *blocks is the caller's, to be released by
 * weights_release.
 */
struct weights_plan {
	enum layout layout;
	size_t strip_max;
	uint32_t want;
	uint64_t limit;
	struct residency residency;
	uint32_t cut;   /* a block begins at this layer */
	unsigned parts; /* that a streamed layer is cut into, at most */
};
int weights_cut(const struct model *, const struct weights_plan *,
	struct block **blocks, uint32_t *n, struct err *);

/* The bytes in front of the layer of a streamed block: whole pages. */
size_t weights_head_bytes(const struct model *);
/* Fill them, at the start of a staging slot. */
void weights_fill_head(const struct model *, void *dst);

/* Before they are loaded: the block lies at byte `at`, a multiple of
 * WEIGHTS_ALIGN, of a buffer that outlives the blocks. */
#define WEIGHTS_ALIGN 64
void weights_share(struct block *, struct buffer *, uint32_t at);

/* Where the CPU sees a loaded block's bytes. */
const uint8_t *weights_bytes(const struct block *);

/* Create the buffer of every block that is not streamed and shares none, and
 * fill it, on the workers. */
int weights_load(const struct model *, struct workers *, struct block *blocks,
	uint32_t n, const struct progress_sink *, struct err *);

void weights_release(struct block *blocks, uint32_t n);

#endif
