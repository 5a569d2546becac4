/*
 * Cost of a session's work on a phone. The cost is computed for the model that
 * runs or, if `as` is set, for another shape (the dimensions of another model).
 * So costs can be computed for models that are too large for this machine.
 *
 * Rules for `as`:
 *
 *   - The numbers of rows, blocks, requests, and slots that rows attend to, and
 *     the sizes of the graphs, are those of the real model. A block with layers
 *     [f, f + n) of the N real layers stands for layers [f * L / N, (f + n) * L
 *     / N) of the L layers of the shape.
 *   - A model whose layers follow another model's layers
 *     (model->layers_before) stands for the last layers of the shape.
 *   - Widths, heads and vocabulary are those of the shape. A matrix has the
 *     type of the same matrix in the real layer that stands for the shape's
 *     layer.
 *   - If a layer runs in parts, the cost of the whole layer is charged to the
 *     run of its last part.
 *   - pricing_retype replaces the types of all matrices. So a model with 8-bit
 *     weights can be priced as a model with 4-bit weights.
 *   - The shape has its own number of resident layers (pricing_keep). For each
 *     layer of the shape that is not resident, one flash read is charged.
 *   - In the device's window, weights, cache and activations take as many bytes
 *     as in a model of the shape (session_plan.h).
 *   - The number of bytes that a request invalidates and cleans is multiplied
 *     by s / m: the bytes of a row's hidden state, and of its keys and values
 *     in the block's layers, in the shape (s) and in the real model (m).
 *
 * So a shape that equals the real model's shape costs exactly as much as the
 * real model. The functions have no side effects and do not depend on time. All
 * calls must be made on one thread.
 */
#ifndef HOST_SESSION_PRICING_H
#define HOST_SESSION_PRICING_H

#include "host/model/residency.h"
#include "ipc/wire.h"
#include "host/model/shape_type.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>
#include <stdint.h>

struct shape;
struct block;
struct err;
struct model;
struct soc;

/* The layer tensor that corresponds to each matrix of the cost model. */
extern const enum wire_layer_tensor pricing_tensor[PRICE_MATRICES];

struct pricing {
	const struct soc *soc;  /* NULL: no cost model */
	const struct shape *as; /* priced shape; NULL: the real model's shape */
	const struct model *model;
	const struct block *block;
	enum wire_precision precision;
	/* [n_layer] for each real layer, the dimensions and types with which
	 * the layer is priced */
	struct price_layer *layer;
	uint32_t layers; /* number of layers of the priced shape */
	/* layers of the real model that are resident */
	struct residency residency;
	uint32_t streamed; /* number of streamed layers of the priced shape */
	/* type of the output matrix from which the CPU computes logits */
	enum dtype output;
	/* type of the output matrix that the device reads (pricing_likely);
	 * session_plan_pricing sets this if `as` is set */
	enum dtype output_tiles;
	/* Whether runs are charged to the CPU instead of the NPU. Padding rows,
	 * requests, cache maintenance and mappings are then not charged. */
	bool by_cpu;
};

/*
 * Set up the pricing of a session's blocks. The blocks and all other arguments
 * must outlive the pricing. The caller must call pricing_release, even if this
 * function fails. Returns 0 or -ENOMEM.
 */
int pricing_init(struct pricing *, const struct soc *, const struct shape *as,
	const struct model *, enum wire_precision, const struct block *,
	uint32_t n_blocks, struct err *);
void pricing_release(struct pricing *);

/* If `as` is set, change the types of the priced shape's matrices to the given
 * GGUF types, stored in the given layout. The type DTYPE_F32 changes
 * nothing. */
void pricing_retype(
	struct pricing *, struct shape_type, enum layout, size_t strip_max);
/* If `as` is set, keep the given share of the layers of the priced shape in
 * memory, but at least as many as correspond to the resident layers of the real
 * model. A share of 0 means exactly this minimum. */
void pricing_keep(struct pricing *, const struct residency *, double share);

/*
 * Cost of a request that runs a block's graph. The graph has graph_rows rows,
 * of which `rows` are used; `longest` is the largest number of slots that a row
 * attends to. For rows of several sequences, `piece` lists the pieces of the
 * cache to which the rows attend (tensor/visibility.h). `piece` is NULL if all
 * rows attend to the same slots. The cost of cache maintenance is not included,
 * because it depends on earlier writes and cannot be predicted. This function
 * and all functions below require a simulated phone (soc not NULL).
 */
struct priced_run {
	uint32_t block, rows, graph_rows, longest;
	const struct visibility_piece *piece; /* [pieces] */
	uint32_t pieces;
	/* whether the block's weights are in the device's extended region
	 * (addresses outside the device's window that only DMA can read) */
	bool extended;
	/* number of layers at the start of the block's share (pricing_share)
	 * whose cost pricing_run leaves out, because the caller has charged it
	 * with pricing_layers */
	uint32_t priced;
};
void pricing_run(
	const struct pricing *, const struct priced_run *, struct price *out);

/* Layers [first, end) of the priced shape `as`, or of the model if `as` is
 * NULL. */
struct share {
	uint32_t first, end;
};
/* The layers of the priced shape that a block stands for (see the rules at the
 * start of this file). */
struct share pricing_share(const struct pricing *, uint32_t block);

/* Cost of running the given layers only, without the cost of the request. */
void pricing_layers(const struct pricing *, const struct priced_run *,
	struct share, struct price *out);

/* Bytes of the weights of `layers`, which must be layers of the priced shape
 * that the block stands for. Without `as`, bytes of the whole block. */
uint64_t pricing_bytes(
	const struct pricing *, uint32_t block, struct share layers);

/*
 * Cost of the cache maintenance of a request for a block. `bytes` is the number
 * of bytes in buffers that were really invalidated and cleaned; the function
 * scales `bytes` to the shape. `rings` is the number of bytes that were
 * invalidated and cleaned in the request and completion rings; this number is
 * the same for every shape.
 */
void pricing_maintenance(const struct pricing *, uint32_t block, uint64_t bytes,
	uint64_t rings, struct price *out);

/* Cost of a request that maps a buffer of weights. */
void pricing_map(const struct pricing *, uint64_t bytes, struct price *out);

/* A real layer may stand for several layers of the priced shape, each with one
 * flash read. Return the bytes of the flash read number i (from 0) for the real
 * layer `layer`; 0 if the layer has no read with this number. */
uint64_t pricing_read(const struct pricing *, uint32_t layer, uint32_t i);

/* Cost of a run of the output graph (which predicts the likeliest next tokens),
 * without cache maintenance. The graph has graph_rows rows, of which `rows` are
 * used. */
void pricing_likely(const struct pricing *, uint32_t graph_rows, uint32_t rows,
	bool extended, struct price *out);
/* Cost of computing the logits of `rows` rows on the CPU. */
void pricing_logits(const struct pricing *, uint32_t rows, struct price *out);

/*
 * Cost of computing `rows` rows through all layers on the CPU. The weights, and
 * the keys and values of `longest` positions, are read once. Norms and other
 * work per row are negligible and not counted. `maps`: attention weights are
 * computed as well.
 */
void pricing_refresh(const struct pricing *, uint32_t rows, uint32_t longest,
	bool maps, struct price *out);

/* Cost of copying the keys and values of `positions` positions by the CPU, in
 * the first `layers` of the real layers. */
void pricing_kv_copy(const struct pricing *, uint64_t positions,
	uint32_t layers, struct price *out);

#endif
