#include "tensor/soc/price.h"

#include "base/checked.h"
#include "tensor/soc/hvx.h"
#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <errno.h>
#include <string.h>

/* number of tiles of weights that one step of the pipeline processes: 512 KiB
 * of fp16 values */
#define PIECE_TILES 256

/* The instructions that dequantize a tile of weights to fp16 values, stored in
 * the order in which the matrix engine reads them. */
struct dequant {
	enum dtype type;
	unsigned bodies;   /* iterations of the loop body for a tile */
	unsigned scatters; /* scatter instructions for a tile */
	struct hvx body;
};

/* The loop body for each type. For 4-bit codes, every body shifts the high
 * nibbles down. A table look-up uses only 4 bits of a byte; bodies without
 * look-ups must mask the nibbles, join low and high nibbles, and widen them. */
static const struct dequant dequants[] = {
	/* a body decodes 32 values and scatters 16 pairs of values */
	{ DTYPE_Q4_0, 32, 32,
		{ .loadu = 1,
			.scalar = 1,
			.alu = 2,
			.shift = 2,
			.pair = 2,
			.mpy = 1,
			.wide = 1,
			.convert = 1 } },
	{ DTYPE_Q8_0, 32, 32,
		{ .loadu = 1,
			.scalar = 1,
			.shift = 1,
			.pair = 1,
			.mpy = 1,
			.wide = 1,
			.convert = 1 } },
	/* a body decodes two groups: their values are joined in one vector, and
	 * their scales in another */
	{ DTYPE_GROUP_Q4_0, 16, 0,
		{ .loadu = 2,
			.scalar = 2,
			.alu = 2,
			.shift = 2,
			.permute = 2,
			.pair = 2,
			.mpy = 2,
			.wide = 1,
			.convert = 1,
			.store = 1 } },
	{ DTYPE_GROUP_Q8_0, 16, 0,
		{ .loadu = 2,
			.scalar = 2,
			.shift = 1,
			.permute = 2,
			.pair = 1,
			.mpy = 2,
			.wide = 1,
			.convert = 1,
			.store = 1 } },
	/* a body decodes 256 values: two look-ups convert the nibbles; the
	 * scales are widened to words, and two more look-ups copy each scale to
	 * the lanes of its values */
	{ DTYPE_SUPER_Q4_0, 4, 0,
		{ .loadu = 2,
			.shift = 1,
			.pair = 5,
			.wide = 4,
			.convert = 4,
			.store = 4 } },
	{ DTYPE_SUPER_Q8_0, 4, 0,
		{ .loadu = 3,
			.shift = 4,
			.pair = 5,
			.wide = 4,
			.convert = 4,
			.store = 4 } },
	/* a body decodes the whole tile: one vector of scales is used for all
	 * values, but pairs of adjacent inputs k must be interleaved */
	{ DTYPE_TILE_Q4_0, 1, 0,
		{ .loadu = 5,
			.shift = 4,
			.pair = 21,
			.wide = 16,
			.convert = 16,
			.store = 16 } },
	{ DTYPE_TILE_Q8_0, 1, 0,
		{ .loadu = 9,
			.shift = 16,
			.pair = 17,
			.wide = 16,
			.convert = 16,
			.store = 16 } },
	{ DTYPE_TILE_F16, 0, 0, { 0 } },
};

/*
 * The instructions that dequantize two groups in htp-ops-lib, the library of
 * the npu-tts paper's authors, if groups are not coalesced. Each group is
 * processed in a separate vector: the group's scale is looked up, and its
 * nibbles are joined, looked up and put in order, or its bytes are widened.
 * Afterwards two vectors are joined.
 */
static const struct dequant authors[] = {
	{ DTYPE_GROUP_Q4_0, 16, 0,
		{ .loadu = 4,
			.shift = 2,
			.permute = 6,
			.pair = 6,
			.wide = 2,
			.convert = 2,
			.store = 1 } },
	{ DTYPE_GROUP_Q8_0, 16, 0,
		{ .loadu = 4,
			.shift = 2,
			.permute = 2,
			.pair = 4,
			.wide = 2,
			.convert = 2,
			.store = 1 } },
};

static const struct dequant *find_dequant(
	const struct dequant *in, size_t n, enum dtype type)
{
	for (size_t i = 0; i < n; i++)
		if (in[i].type == type)
			return &in[i];
	return NULL;
}

#define DEQUANT(type) find_dequant(dequants, ARRAY_LEN(dequants), type)

const struct hvx *price_dequant(enum dtype type, unsigned *bodies)
{
	const struct dequant *d = DEQUANT(type);

	*bodies = d ? d->bodies : 0;
	return d ? &d->body : NULL;
}

/*
 * Set the counts and busy times of *p for a product with `tiles` tiles of
 * weights, which DMA and the vector units process `passes` times. In all passes
 * together, the matrix engine multiplies each tile of weights by `row_tiles`
 * tiles of rows.
 */
static void stream(const struct soc *soc, const struct dequant *d,
	uint64_t tiles, uint64_t passes, uint64_t row_tiles, struct price *p)
{
	struct price_counts *c = &p->counts;
	uint64_t come = tiles * passes;

	c->dma_bytes = come *
		(tile_info(d->type) ? tile_info(d->type)->bytes
				    : TILE * dtype_row_bytes(d->type, TILE));
	c->dma_descriptors = ceil_div(tiles, PIECE_TILES) * passes;
	c->matrix_tiles = tiles * row_tiles;
	c->vector_packets = come * d->bodies * hvx_packets(soc, &d->body);
	c->gathers = come * d->scatters;
	p->dma_ps = price_dma_ps(soc, c->dma_bytes, c->dma_descriptors);
	p->matrix_ps = price_matrix_ps(soc, c->matrix_tiles);
	p->vector_ps = price_vector_even_ps(soc, c->vector_packets, c->gathers);
}

/* The price of a matrix product. If `stays` is set, the product stays in TCM
 * and is not converted back to float32 rows. */
static int matmul(const struct soc *soc, uint64_t rows, uint64_t n, uint64_t k,
	const struct dequant *d, bool stays, struct price *out)
{
	uint64_t row_tiles = ceil_div(rows, TILE), at_once, tiles;
	struct price_counts *c = &out->counts;
	struct price first = { 0 };

	memset(out, 0, sizeof(*out));
	if (!d || !price_fits(rows) || !price_fits(n) || !price_fits(k) ||
		k % TILE)
		return -EINVAL;
	tiles = ceil_div(n, TILE) * (k / TILE);
	/* The number of row tiles (32 rows of k fp16 values each) that fit into
	 * half of the TCM (the NPU's local memory). For every `at_once` row
	 * tiles, all weights are streamed once. */
	at_once = larger((uint64_t)soc->tcm_bytes / 2 / (k * TILE * 2), 1);
	stream(soc, d, tiles, ceil_div(row_tiles, at_once), row_tiles, out);
	stream(soc, d, smaller(tiles, PIECE_TILES), 1,
		smaller(row_tiles, at_once), &first);

	c->vector_packets += price_row_packets(soc, &price_to_tile, rows, k);
	if (!stays)
		c->vector_packets +=
			price_row_packets(soc, &price_from_tile, rows, n);
	out->vector_ps =
		price_vector_even_ps(soc, c->vector_packets, c->gathers);
	price_spill(soc, rows * (stays ? k : n + k) * sizeof(float), out);
	price_finish(soc, out, &first);
	return 0;
}

void price_matmul_rows(const struct soc *soc, uint64_t rows, uint64_t n,
	uint64_t k, struct price *out)
{
	double each = soc->batch_weight_s + (double)rows * soc->row_weight_s;

	if (rows > 1 && each > 0)
		price_add_vector(soc, (double)n * (double)k * each, out);
}

int price_matmul_by(const struct soc *soc, uint64_t rows, uint64_t n,
	uint64_t k, enum dtype type, enum price_dequant by, struct price *out)
{
	const struct dequant *d = by == PRICE_DEQUANT_AUTHORS
		? find_dequant(authors, ARRAY_LEN(authors), type)
		: DEQUANT(type);
	struct dequant copied = { .type = type };

	if (d && by == PRICE_DEQUANT_COPY)
		d = &copied;
	return matmul(soc, rows, n, k, d, false, out);
}

int price_likely(const struct soc *soc, uint64_t graph_rows, uint64_t rows,
	uint64_t n, uint64_t k, enum dtype type, enum price_exp exp,
	struct price *out)
{
	struct price softmax;
	int ret = matmul(soc, graph_rows, n, k, DEQUANT(type), true, out);

	if (ret || (ret = price_softmax(soc, graph_rows, n, exp, &softmax))) {
		memset(out, 0, sizeof(*out));
		return ret;
	}
	price_matmul_rows(soc, rows, n, k, out);
	price_join(soc, &softmax);
	price_add(out, &softmax);
	return 0;
}
