/*
 * Cost of a session's work on a phone: for the model that runs, or for another
 * shape in its place, so that a method's savings can be computed for models
 * that are too large to run here.
 *
 * Rules for a shape that replaces the real model (`as`):
 *
 *   - rows, graph sizes, blocks, requests and the slots that rows attend to
 *     are the real ones; block b with layers [f, f + n) of N stands for
 *     layers [f * L / N, (f + n) * L / N) of the shape's L;
 *   - a model whose layers follow another's (model->layers_before) stands for
 * the last layers of the shape, as it does in the combination of the two;
 *   - widths, heads and vocabulary are the shape's; a matrix has the type of
 *     the same matrix in the real layer that stands for it;
 *   - if a layer runs in parts, the last part is charged for all of it;
 *   - pricing_retype replaces the types of all matrices: so a model trained
 *     in 8 bits can be priced as one in 4;
 *   - the shape has its own number of resident layers (pricing_keep); what is
 *     read for a block are its other layers, one read each;
 *   - the cache lines that a request invalidates and cleans scale with the
 *     bytes of a row's states, keys and values in the block.
 *
 * So a shape equal to the real model's costs the same, to the picosecond. No
 * side effects, no dependence on time; one thread.
 */
#ifndef HOST_SESSION_PRICING_H
#define HOST_SESSION_PRICING_H

#include "host/model/residency.h"
#include "ipc/wire.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>
#include <stdint.h>

struct block;
struct err;
struct model;
struct shape;
struct soc;

/* The tensor of a layer for each matrix of the cost model. */
extern const enum wire_layer_tensor pricing_tensor[PRICE_MATRICES];

struct pricing {
	const struct soc *soc;  /* NULL: no cost model */
	const struct shape *as; /* NULL: the real model */
	const struct model *model;
	const struct block *block;
	enum wire_precision precision;
	/* [n_layer] the real layers as they are priced */
	struct price_layer *layer;
	uint32_t layers;            /* layers of the shape */
	struct residency residency; /* of the real model */
	uint32_t streamed;          /* of `layers` */
	enum dtype output;          /* of the output matrix */
	/* Runs are computed by the CPU, not the NPU: only real rows, no
	 * requests, no cache maintenance, no maps. */
	bool by_cpu;
};

/*
 * For the blocks of a session. They and all other arguments must outlive the
 * pricing. Undone by pricing_release, even after a failure; -ENOMEM.
 */
int pricing_init(struct pricing *, const struct soc *, const struct shape *as,
	const struct model *, enum wire_precision, const struct block *,
	uint32_t n_blocks, struct err *);
void pricing_release(struct pricing *);

/* With a shape: give its matrices this GGUF type, in the given layout; F32:
 * keep the real types. */
void pricing_retype(
	struct pricing *, enum dtype, enum layout, size_t strip_max);
/* With a shape: keep this share of its layers in memory, but not fewer than the
 * real resident layers stand for. 0: exactly as many as those. */
void pricing_keep(struct pricing *, const struct residency *, double share);

/*
 * With a phone (soc not NULL): the cost of a request that runs a block's graph
 * of graph_rows rows for `rows` rows, where the row that attends to most
 * attends to `longest` slots; for rows of several sequences `piece` has their
 * masks, cut into pieces (tensor/visibility.h; NULL: all attend to the same).
 * Cache maintenance is not included, as it depends on earlier writes:
 * pricing_run is the part that can be predicted.
 */
struct priced_run {
	uint32_t block, rows, graph_rows, longest;
	const struct visibility_piece *piece; /* [pieces] */
	uint32_t pieces;
	bool extended; /* the block's weights are in the extended region */
};
void pricing_run(
	const struct pricing *, const struct priced_run *, struct price *out);

/* Cost of the cache maintenance of a request for a block, whose real amount is
 * `bytes`. */
void pricing_maintenance(const struct pricing *, uint32_t block, uint64_t bytes,
	struct price *out);

/* Cost of loading a graph of the block, whatever its rows, on the loader. */
void pricing_load(const struct pricing *, uint32_t block, struct price *out);

/* Cost of a request that maps the block, whose buffer has buffer_bytes. */
void pricing_map(const struct pricing *, uint32_t block, uint64_t buffer_bytes,
	struct price *out);

/* Bytes of the i-th read from flash that the real layer `layer` stands for; 0
 * after the last. */
uint64_t pricing_read(const struct pricing *, uint32_t layer, uint32_t i);

/* Cost of copying the block's weights in memory: a read and a write. */
void pricing_copy(const struct pricing *, uint32_t block, struct price *out);

/* Cost of logits of `rows` rows, on the CPU. */
void pricing_logits(const struct pricing *, uint32_t rows, struct price *out);

/*
 * Cost of `rows` rows through all layers on the CPU, which reads the weights
 * once, and the keys and values of `longest` positions. Work done row by row is
 * left out, as negligible beside the matrices. `maps`: attention weights are
 * computed, too.
 */
void pricing_refresh(const struct pricing *, uint32_t rows, uint32_t longest,
	bool maps, struct price *out);

/* Cost of copying keys and values of `positions` positions, in `layers` of the
 * real layers, by the CPU. */
void pricing_kv_copy(const struct pricing *, uint64_t positions,
	uint32_t layers, struct price *out);

#endif
