/*
 * The layers of a model are cut into blocks of consecutive layers. The tensors
 * of a block are in one shared buffer that the device reads by DMA
 * (tandem:weights0, ...). The tensors are copied from the model file, or read
 * unchanged from a flash image (docs/flash-image.md). The device works with
 * whole blocks: a graph, a request, a mapping and an eviction all concern one
 * block. A streamed layer (host/memory/staging.h) is a block of one layer, or
 * several blocks that are parts of the layer (host/memory/layer_parts.h). The
 * weights of a streamed layer have no buffer of their own: each pass reads them
 * into a staging slot. A layer with experts is two blocks. The first block has
 * everything up to the router, and the shared expert. The second block has the
 * other experts, whose weights are in a cache (host/memory/experts.h).
 *
 * A block's buffer contains the rope frequencies, and then the tensors layer by
 * layer, in the order of enum wire_layer_tensor, each aligned to 64 bytes.
 * Vectors are float32, matrices have the requested layout. Tensors from a flash
 * image keep the layout of the image.
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
	/* which part of a layer the block is; from tensor 0 to WIRE_T_COUNT if
	 * the block has whole layers */
	struct wire_part part;
	uint32_t bytes;
	/* Size of the block's buffer, if larger than `bytes`. If costs are
	 * computed for a larger model, the block takes as much of the device's
	 * window as that model's block. The bytes after the first `bytes` are
	 * never accessed, so they take no memory. */
	uint32_t room;
	struct wire_tensor rope_freq;
	struct wire_tensor (*tensor)[WIRE_T_COUNT]; /* tensors of each layer */
	/* whether the block's weights are in staging slots; the block then has
	 * no buffer */
	bool streamed;
	/* whether the block consists of the routed experts of the layer;
	 * `tensor` and `bytes` then describe one expert in its slot of the
	 * cache */
	bool experts;
	struct buffer *buffer; /* NULL until weights_load or weights_share */
	/* Offset of the block in `buffer`. `shares`: weights_share placed the
	 * block in a buffer together with other blocks; otherwise the offset is
	 * 0. */
	uint32_t at;
	bool shares;
	/* Number of values in the loaded block that are not finite. Layers
	 * from a flash image are not checked. */
	uint64_t not_finite;
};

/* block_begins: whether the block begins at the start of a layer. block_ends:
 * whether the block ends at the end of a layer. */
static inline bool block_begins(const struct block *b)
{
	return !b->part.first;
}

static inline bool block_ends(const struct block *b)
{
	return b->part.end == WIRE_T_COUNT;
}

/*
 * Cut the layers into blocks and compute their layout. The resident blocks come
 * first, then the streamed blocks.
 *
 * The resident layers are divided into groups, called runs
 * (host/model/residency.h), and each run has the same number of blocks. There
 * are at least `want` resident blocks or, if fewer than `want` layers are
 * resident, one block per resident layer. There are more blocks if a block
 * would otherwise exceed `limit` bytes; only a block of a single layer may
 * exceed `limit`. A strip of tiles (the weights of 32 outputs) has at most
 * `strip_max` bytes; weights_cut returns -EFBIG if the flash image has larger
 * strips. The caller owns *blocks and frees them with weights_release.
 */
struct weights_plan {
	enum layout layout;
	size_t strip_max;
	uint32_t want;
	uint64_t limit;
	struct residency residency;
	/* weights_cut begins a block at the layer with this number; 0: at no
	 * particular layer */
	uint32_t cut;
	unsigned parts; /* maximum number of parts of a streamed layer */
};
int weights_cut(const struct model *, const struct weights_plan *,
	struct block **blocks, uint32_t *n, struct err *);

/* Size in bytes of the head of a staging slot, which precedes a streamed
 * block's layer; a multiple of the page size. The head starts with the model's
 * rope_freq. */
size_t weights_head_bytes(const struct model *);

/*
 * Place the block in an existing buffer, at byte `at`, a multiple of
 * WEIGHTS_ALIGN. The buffer must outlive the blocks. Call this before
 * weights_load.
 */
#define WEIGHTS_ALIGN 64
void weights_share(struct block *, struct buffer *, uint32_t at);

/* The bytes of a loaded block, for reading by the CPU. */
const uint8_t *weights_bytes(const struct block *);

/*
 * Fill all blocks that are neither streamed nor routed experts, using the
 * workers. Creates a buffer for each of these blocks, unless weights_share has
 * placed it in a buffer. Returns 0 or a negative errno.
 */
int weights_load(const struct model *, struct workers *, struct block *blocks,
	uint32_t n, const struct progress_sink *, struct err *);

void weights_release(struct block *blocks, uint32_t n);

#endif
