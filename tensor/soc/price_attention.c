#include "tensor/soc/price.h"

#include "tensor/soc/hvx.h"
#include "tensor/soc/price_impl.h"
#include "tensor/visibility.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define HEADS_MAX 4096
/* number of KV positions of a KV head that one step of the pipeline processes
 */
#define PIECE 64
/* number of rows of scores that TCM (the NPU's local memory) holds at once */
#define ROW_BLOCK 256
#define EXP_TABLE (64u << 10) /* bytes that the exp2 table takes in TCM */

/* ---- softmax ---- */

/*
 * The loop bodies of a softmax, each for two rows by 64 columns: separate the
 * rows of a tile into two vectors (rows_apart); apply the mask and find the
 * maximum (mask_max); compute table indices (table_index); look up, store back
 * into the tile and sum in 32 bits (sum_rows). If the exponential is a
 * polynomial, the last loop computes the polynomial instead of the look-up.
 */
static const struct hvx rows_apart = { .load = 2, .pair = 1, .store = 2 };
static const struct hvx mask_max = {
	.load = 2, .loadu = 2, .alu = 6, .store = 2
};
static const struct hvx table_index = { .load = 2, .shift = 4, .convert = 2 };
static const struct hvx sum_rows = {
	.load = 2, .shift = 4, .pair = 1, .wide = 2, .store = 2
};
static const struct hvx exp_f16_sum = { .load = 2,
	.alu = 6,
	.shift = 32,
	.pair = 1,
	.wide = 14,
	.convert = 6,
	.store = 2,
	.chain = 43,
	.chain_converts = 3 };
static const struct hvx exp_f32_sum = { .load = 2,
	.alu = 12,
	.shift = 60,
	.pair = 1,
	.mpy = 2,
	.wide = 26,
	.convert = 12,
	.store = 2,
	.chain = 47,
	.chain_converts = 3 };

/* Number of packets that two rows take outside of the loops: the maximum and
 * the sum across the lanes of a vector, and the broadcast of the maximum to all
 * lanes. These instructions depend on each other. */
#define ROWS_ACROSS 57

static void softmax_counts(const struct soc *soc, uint64_t rows,
	uint64_t length, enum price_exp exp, struct price_counts *c)
{
	uint64_t pairs = ceil_div(rows, 2);
	uint64_t chunks = pairs * ceil_div(length, 64);
	const struct hvx *last = exp == PRICE_EXP_F32 ? &exp_f32_sum
		: exp == PRICE_EXP_F16                ? &exp_f16_sum
						      : &sum_rows;
	uint64_t each = hvx_packets(soc, &rows_apart) +
		hvx_packets(soc, &mask_max) + hvx_packets(soc, last);

	if (exp == PRICE_EXP_TABLE) {
		each += hvx_packets(soc, &table_index);
		c->gathers += 2 * chunks;
	}
	c->vector_packets += pairs * ROWS_ACROSS + chunks * each;
}

int price_softmax(const struct soc *soc, uint64_t rows, uint64_t length,
	enum price_exp exp, struct price *out)
{
	struct price_counts *c = &out->counts;

	memset(out, 0, sizeof(*out));
	if (!price_fits(rows) || !price_fits(length) || exp > PRICE_EXP_TABLE)
		return -EINVAL;
	softmax_counts(soc, rows, length, exp, c);
	out->vector_ps = price_vector_ps(
		soc, c->vector_packets, c->gathers, ceil_div(rows, 2));
	price_finish(soc, out, &(struct price){ 0 });
	return 0;
}

/* ---- attention ---- */

struct attention {
	/* number of rows of scores of a KV head: the input rows times the query
	 * heads that share the KV head */
	uint64_t rows;
	uint64_t heads; /* number of KV heads */
	uint64_t dim;   /* head_dim, in tiles of 32 */
	enum price_exp exp;
	/* row_blocks: number of blocks of ROW_BLOCK rows of scores. block:
	 * number of KV positions that are in TCM at once. */
	uint64_t row_blocks, block;
};

/* The instructions that put keys and values in the order of tiles. transpose_k
 * transposes 64 elements of 32 keys: five stages of shuffles of 32 vectors.
 * shuffle_v interleaves the vectors of V of two positions. */
static const struct hvx transpose_k = { .load = 32, .pair = 80, .store = 32 };
static const struct hvx shuffle_v = { .load = 2, .pair = 1, .store = 2 };
/* The instructions that update the maximum and the sum of 64 rows, including
 * the exponential of the difference between old and new maximum. */
static const struct hvx carry = { .load = 3,
	.alu = 4,
	.shift = 16,
	.wide = 7,
	.convert = 4,
	.store = 3,
	.chain = 45,
	.chain_converts = 4 };

/* Set the counts and busy times of *p, which the caller has zeroed, for
 * attention of all rows of scores to `length` KV positions. */
static void attend(const struct soc *soc, const struct attention *a,
	uint64_t length, struct price *p)
{
	uint64_t row_tiles = ceil_div(a->rows, TILE);
	uint64_t columns = ceil_div(length, TILE);
	uint64_t blocks = ceil_div(length, a->block);
	uint64_t diagonal = smaller(row_tiles, ROW_BLOCK / TILE);
	uint64_t loads = a->heads * a->row_blocks * ceil_div(a->dim, 2);
	struct price_counts *c = &p->counts, soft = { 0 };

	c->matrix_tiles = a->heads * row_tiles * a->dim *
		(2 * columns + diagonal * blocks);
	c->read_bytes = a->heads * a->row_blocks * length * a->dim * TILE * 4;
	c->vector_packets = loads * columns * hvx_packets(soc, &transpose_k) +
		loads * ceil_div(length, 2) * hvx_packets(soc, &shuffle_v) +
		a->heads * ceil_div(a->rows, 64) * blocks *
			hvx_packets(soc, &carry);
	p->vector_ps = price_vector_even_ps(soc, c->vector_packets, 0);

	softmax_counts(soc, a->rows, length, a->exp, &soft);
	c->gathers = a->heads * soft.gathers;
	soft.vector_packets *= a->heads;
	c->vector_packets += soft.vector_packets;
	p->vector_ps += price_vector_ps(soc, soft.vector_packets, c->gathers,
		a->heads * ceil_div(a->rows, 2));
	p->matrix_ps = price_matrix_ps(soc, c->matrix_tiles);
	p->read_ps = price_bytes_ps(c->read_bytes, soc->read_bytes_per_s);
}

/*
 * The price of attention to `length` slots, without the launch of the operator.
 * *first becomes the price of the first PIECE positions of one KV head, after
 * which all engines work in parallel. Returns false for an invalid shape.
 */
static bool attention(const struct soc *soc, uint64_t rows,
	const struct price_heads *h, uint64_t length, struct price *out,
	struct price *first)
{
	uint64_t dim = h->head_dim, room = (uint64_t)soc->tcm_bytes;
	uint64_t row_tiles, at_once, taken, packets;
	struct attention a;

	memset(out, 0, sizeof(*out));
	memset(first, 0, sizeof(*first));
	if (!price_fits(rows) || !price_fits(length) || !h->heads ||
		h->heads > HEADS_MAX || !h->kv_heads ||
		h->heads % h->kv_heads || !h->head_dim ||
		h->head_dim > HEADS_MAX || h->head_dim % TILE ||
		h->exp > PRICE_EXP_TABLE)
		return false;
	a = (struct attention){ .rows = rows * (h->heads / h->kv_heads),
		.heads = h->kv_heads,
		.dim = dim / TILE,
		.exp = h->exp };
	a.row_blocks = ceil_div(a.rows, ROW_BLOCK);
	row_tiles = ceil_div(a.rows, TILE);
	/* Compute a.block, the number of positions whose keys, values and
	 * scores fit into TCM together with the queries, the outputs, and the
	 * diagonal matrix that rescales the outputs. */
	at_once = smaller(row_tiles * TILE, ROW_BLOCK);
	taken = EXP_TABLE + 2 * (3 * at_once * dim + at_once * at_once);
	a.block = room < taken
		? 64
		: larger((room - taken) / (2 * (2 * dim + 2 * at_once)) / 64 *
				  64,
			  64);
	attend(soc, &a, length, out);

	/* Convert queries into tiles; divide outputs by the sums of the softmax
	 * weights, and convert the outputs from tiles to rows. */
	packets = a.heads *
		(price_row_packets(soc, &price_to_tile, a.rows, dim) +
			price_row_packets(soc, &price_from_tile, a.rows, dim));
	out->counts.vector_packets += packets;
	out->vector_ps += price_vector_even_ps(soc, packets, 0);
	out->counts.matrix_tiles += a.heads * row_tiles * a.dim *
		smaller(row_tiles, ROW_BLOCK / TILE);
	out->matrix_ps = price_matrix_ps(soc, out->counts.matrix_tiles);

	a.heads = 1;
	attend(soc, &a, smaller(length, PIECE), first);
	return true;
}

/* One operator processes all pieces, so its launch is counted once
 * (price_finish). */
void price_visibility(const struct soc *soc, const struct price_heads *h,
	uint64_t graph_rows, uint64_t rows,
	const struct visibility_piece *piece, uint32_t pieces,
	struct price *out)
{
	struct price p, first, begin = { 0 };
	bool any = false;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < pieces; i++) {
		if (!attention(soc,
			    piece[i].rows == rows ? graph_rows : piece[i].rows,
			    h, piece[i].slots, &p, &first))
			continue;
		price_add(out, &p);
		begin = any ? begin : first;
		any = true;
	}
	if (any)
		price_finish(soc, out, &begin);
}
