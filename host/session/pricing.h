/*
 * What a session's work costs on a phone: of the model that runs, or of another
 * shape in its place, so that what a method saves can be asked of models that
 * are too large to be run here.
 *
 * Of a shape in its place (`as`):
 *
 *   - rows, graphs' sizes, blocks, requests and the slots that rows see are
 *     those of what runs; block b, which holds layers [f, f + n) of N, stands
 *     for layers [f * L / N, (f + n) * L / N) of the shape's L;
 *   - a model whose layers stand behind another's (model->behind) stands for
 *     the last of the shape's, as these do in the two together;
 *   - widths, heads, vocabulary are the shape's; a matrix has the type that the
 *     same matrix has in the layer of what runs that it stands for;
 *   - of a layer that is run in parts the last stands for all of it;
 *   - a matrix has another type instead where that is said (pricing_retype):
 *     so what was trained in 8 bits can be asked for as one in 4;
 *   - of a share of the layers in memory (pricing_keep) the shape has its own
 *     number; what is read of a block are its other layers, a read each;
 *   - cache lines that a request invalidates and cleans are as many more as a
 *     row's states, keys and values in the block take more bytes.
 *
 * So a shape that is the one that runs costs what runs costs, to the last
 * picosecond. Nothing here has an effect or depends on time; one thread.
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

/* Which of a layer's tensors a matrix is. */
extern const enum wire_layer_tensor pricing_tensor[PRICE_MATRICES];

struct pricing {
	const struct soc *soc;  /* NULL: nothing is priced */
	const struct shape *as; /* NULL: what runs */
	const struct model *model;
	const struct block *block;
	enum wire_precision precision;
	struct price_layer *layer;  /* [n_layer] that run, as they are priced */
	uint32_t layers;            /* in their place */
	struct residency residency; /* of what runs */
	uint32_t streamed;          /* of `layers` */
	enum dtype output;          /* of the output matrix */
	/* Runs are the CPU's and not the NPU's: of their rows, not of graphs,
	 * and nothing is asked for, kept coherent or mapped. */
	bool by_cpu;
};

/*
 * For the blocks of a session, which outlive it, as does all else it is given.
 * pricing_release undoes it, whatever it returned; -ENOMEM.
 */
int pricing_init(struct pricing *, const struct soc *, const struct shape *as,
	const struct model *, enum wire_precision, const struct block *,
	uint32_t n_blocks, struct err *);
void pricing_release(struct pricing *);

/* Of a shape in place of what runs: its matrices are of this GGUF type, as the
 * layout has it; F32: of those of what runs. */
void pricing_retype(
	struct pricing *, enum dtype, enum layout, size_t strip_max);
/* Likewise: this share of its layers stays in memory; of what runs some do,
 * which are no more. 0: as many as these stand for. */
void pricing_keep(struct pricing *, const struct residency *, double share);

/*
 * Of a phone alone (soc not NULL): a request that runs a block's graph of so
 * many rows for `rows` of them, of which the one that sees the most sees
 * `longest` slots; of rows of several sequences what they see is given as well,
 * cut up (tensor/visibility.h; NULL: all see the same). Without the maintenance
 * of caches, which depends on what was written before: pricing_run is what can
 * be told ahead.
 */
struct priced_run {
	uint32_t block, rows, graph_rows, longest;
	const struct visibility_piece *piece; /* [pieces] */
	uint32_t pieces;
	bool extended; /* the block's weights lie in the extended region */
};
void pricing_run(
	const struct pricing *, const struct priced_run *, struct price *out);

/* The maintenance of a request for a block, when that of what runs is so many
 * bytes. */
void pricing_maintenance(const struct pricing *, uint32_t block, uint64_t bytes,
	struct price *out);

/* A graph of the block made ready on the loader, whatever its rows. */
void pricing_load(const struct pricing *, uint32_t block, struct price *out);

/* A request that maps the block, whose buffer has so many bytes. */
void pricing_map(const struct pricing *, uint32_t block, uint64_t buffer_bytes,
	struct price *out);

/* Bytes of the i-th read from flash that layer `layer`, of those that run,
 * stands for; 0 behind the last. */
uint64_t pricing_read(const struct pricing *, uint32_t layer, uint32_t i);

/* The block's weights copied in memory, which reads and writes them. */
void pricing_copy(const struct pricing *, uint32_t block, struct price *out);

/* Logits of so many rows, on the CPU. */
void pricing_logits(const struct pricing *, uint32_t rows, struct price *out);

/*
 * So many rows through all layers on the CPU, which reads the weights once, and
 * the keys and values of `longest` positions. What is done row by row is left
 * out: it is next to nothing beside the matrices. `maps`: what they attend to
 * is wanted, too.
 */
void pricing_refresh(const struct pricing *, uint32_t rows, uint32_t longest,
	bool maps, struct price *out);

/* Keys and values of so many positions, of so many of the layers that run,
 * copied by the CPU. */
void pricing_kv_copy(const struct pricing *, uint64_t positions,
	uint32_t layers, struct price *out);

#endif
