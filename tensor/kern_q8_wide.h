/*
 * The micro-kernel of kern_q8.c for the instruction sets for which kern_q8.h
 * defines Q8_WIDE. The micro-kernel multiplies a few rows by two vectors of
 * outputs, whose sums stay in registers throughout a chunk (256 inputs).
 *
 * Private to kern_q8.c. This file and kern_q8_narrow.h define the same names:
 * ROWS, PERMUTED (whether products with nibbles use the permuted copy of a
 * row's codes, see kern_tile.h), few, chunk_steps, struct ready with
 * make_ready, and multiply.
 */
#ifndef TENSOR_KERN_Q8_WIDE_H
#define TENSOR_KERN_Q8_WIDE_H

#include "tensor/kern_q8_chunk.h"

#ifdef Q8_WIDE

/* The number of rows of a register tile, which has two vectors of outputs. For
 * each row and each vector there is an int32 sum and a float32 sum, and all
 * sums must fit the registers. */
#define ROWS     (VEC_LANES == 8 ? 3 : 6)
#define PERMUTED true

/* For up to this number of rows, a product whose weights are decoded in
 * registers uses a single register tile. With VNNI, decoding once for eight
 * rows is faster than decoding for each of two smaller tiles, although the
 * float32 sums of eight rows do not fit the registers and are kept in the L1
 * cache. */
#ifdef __AVX512VNNI__
#define FEW_ROWS 8
#else
#define FEW_ROWS ROWS
#endif

/*
 * The number of rows up to which it is faster to decode a chunk again for each
 * register tile than to store its decoded codes. For nibbles, and for int8
 * codes with AVX2, the limit is one register tile; decoding nibbles costs as
 * much as the products of three rows. For int8 codes with AVX-512 the limit is
 * several tiles, because decoding is only an exclusive or. For Arm the limit is
 * 0, because Arm has too few registers to decode without storing.
 */
static ALWAYS_INLINE unsigned few(bool four)
{
	return VEC_LANES < 8 ? 0 : VEC_LANES == 8 || four ? FEW_ROWS : 4 * ROWS;
}

/* The decoded codes of a chunk (256 inputs), in the order in which the products
 * use them, and the scales of the chunk. */
struct ready {
	struct half half[Q8_TILES][2];
	vec scale[Q8_TILES][STRIP_VECS];
};

static ALWAYS_INLINE void make_ready(
	struct ready *to, const struct chunk *c, bool four)
{
	for (unsigned t = 0; t < c->tiles; t++) {
		const uint8_t *tile = c->w + t * tile_size(four);

		half_codes(&to->half[t][0], tile, 0, four);
		half_codes(&to->half[t][1], tile, 1, four);
		tile_scales(to->scale[t], tile, four);
	}
}

/* A register tile: `rows` rows by the two vectors of outputs v and v + 1. */
struct shape {
	int rows, v;
	bool four;
};

/*
 * The addresses of the rows of a register tile: a pointer to every third row,
 * and a stride. One pointer for each row would take registers that other loop
 * variables need. The pointers are hidden from the optimizer, because otherwise
 * the compiler creates one pointer for each row again.
 */
struct tile_rows {
	const uint8_t *third[(FEW_ROWS + 2) / 3];
	size_t stride;
};

static ALWAYS_INLINE struct tile_rows tile_rows(const uint8_t *p, size_t stride)
{
	struct tile_rows t = { .stride = stride };

	for (int i = 0; i < (FEW_ROWS + 2) / 3; i++, p += 3 * stride) {
		t.third[i] = p;
		__asm__("" : "+r"(t.third[i]));
	}
	return t;
}

static ALWAYS_INLINE const uint8_t *tile_row_at(
	const struct tile_rows *t, int r, size_t at)
{
	return t->third[r / 3] + r % 3 * t->stride + at;
}

static ALWAYS_INLINE ivec tile_row_get(
	const struct tile_rows *t, int r, size_t at)
{
	return all32(tile_row_at(t, r, at));
}

static ALWAYS_INLINE void tile_rows_step(struct tile_rows *t, size_t bytes)
{
	for (int i = 0; i < (FEW_ROWS + 2) / 3; i++)
		t->third[i] += bytes;
}

#ifdef __ARM_FEATURE_MATMUL_INT8

/* Load eight codes of row r and eight codes of row r + 1. If there is no row r
 * + 1, load the codes of row r twice. */
static ALWAYS_INLINE int8x16_t two_rows(
	const struct tile_rows *x, int r, size_t at, const struct shape s)
{
	const int second = r + 1 < s.rows ? r + 1 : r;

	return vcombine_s8(vld1_s8((const int8_t *)tile_row_at(x, r, at)),
		vld1_s8((const int8_t *)tile_row_at(x, second, at)));
}

/*
 * Add the products of 16 indices k, beginning at offset `at` of the rows: two
 * rows by two outputs by eight k at a time. For even r, acc[r] gets the sums of
 * the rows r and r + 1 for the outputs 0 and 1 of a vector, and acc[r + 1] gets
 * the sums of the same rows for the outputs 2 and 3.
 */
static ALWAYS_INLINE void add_half(ivec (*acc)[2], const struct half *h,
	const struct tile_rows *x, size_t at, const struct shape s)
{
	for (int i = 0; i < 4; i += 2)
		for (int r = 0; r < s.rows; r += 2) {
			const int8x16_t c =
				two_rows(x, r, at + 4 * (size_t)i, s);

			for (int v = 0; v < 4; v++) {
				ivec *sum = &acc[r + v % 2][v / 2];
				const ivec w = h->w[i + v % 2][s.v + v / 2];

				*sum = (ivec)vmmlaq_s32(
					(int32x4_t)*sum, c, (int8x16_t)w);
			}
		}
}

/* Rearrange the sums so that acc[r] has the sums of row r only. */
static ALWAYS_INLINE void part_rows(ivec (*acc)[2], const struct shape s)
{
	for (int r = 0; r < s.rows; r += 2)
		for (int v = 0; v < 2; v++) {
			const int64x2_t a = (int64x2_t)acc[r][v];
			const int64x2_t b = (int64x2_t)acc[r + 1][v];

			acc[r][v] = (ivec)vzip1q_s64(a, b);
			acc[r + 1][v] = (ivec)vzip2q_s64(a, b);
		}
}

#else

/* Add the products of 16 indices k, beginning at offset `at` of the rows. */
static ALWAYS_INLINE void add_half(ivec (*acc)[2], const struct half *h,
	const struct tile_rows *x, size_t at, const struct shape s)
{
	for (int i = 0; i < 4; i++) {
		const ivec w0 = h->w[i][s.v], w1 = h->w[i][s.v + 1];

		for (int r = 0; r < s.rows; r++) {
			const ivec c = tile_row_get(x, r, at + 4 * (size_t)i);

			acc[r][0] = dot(acc[r][0], w0, c, s.four);
			acc[r][1] = dot(acc[r][1], w1, c, s.four);
		}
	}
}

static ALWAYS_INLINE void part_rows(ivec (*acc)[2], const struct shape s)
{
}

#endif

static ALWAYS_INLINE void add_sums(vec (*sum)[2], ivec (*acc)[2],
	const ivec *start, const vec *scale, const struct shape s)
{
	part_rows(acc, s);
	for (int v = 0; v < 2; v++) {
		const vec d = scale[s.v + v];

		for (int r = 0; r < s.rows; r++)
			sum[r][v] = fma_vec(
				__builtin_convertvector(
					sum_end(acc[r][v], start[r], s.four),
					vec),
				d, sum[r][v]);
	}
}

/* Compute the float32 sums of a chunk for the next s.rows rows, decoding the
 * stored codes of the weights in registers. */
static ALWAYS_INLINE void stored_sums(vec (*sum)[2], const struct chunk *c,
	const struct block *b, const struct shape s)
{
	struct tile_rows x = tile_rows(b->codes, b->row_bytes);
	struct tile_rows from = tile_rows(b->start, b->row_bytes);
	const uint8_t *tile = c->w;

	for (unsigned n = c->tiles; n; n--, tile += tile_size(s.four)) {
		ivec acc[FEW_ROWS][2] = { 0 }, start[FEW_ROWS];
		vec scale[STRIP_VECS];
		struct half half;

		for (int r = 0; r < s.rows; r++) {
			start[r] = tile_row_get(&from, r, 0);
			acc[r][0] = acc[r][1] = sum_begin(start[r]);
		}
		prefetch(tile + c->ahead, s.four);
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++) {
			half_codes(&half, tile, h, s.four);
			add_half(acc, &half, &x, (size_t)h * 16, s);
		}
		tile_scales(scale, tile, s.four);
		add_sums(sum, acc, start, scale, s);
		tile_rows_step(&x, TILE);
		tile_rows_step(&from, 4);
	}
}

/* Like stored_sums, but with the codes that make_ready has decoded. */
static ALWAYS_INLINE void ready_sums(vec (*sum)[2], const struct chunk *c,
	const struct block *b, struct ahead *ahead, const struct shape s)
{
	struct tile_rows x = tile_rows(b->codes, b->row_bytes);
	struct tile_rows from = tile_rows(b->start, b->row_bytes);

	for (unsigned t = 0; t < c->tiles; t++) {
		ivec acc[ROWS][2] = { 0 }, start[ROWS];

		fetch_step(ahead);
		for (int r = 0; r < s.rows; r++) {
			start[r] = tile_row_get(&from, r, 0);
			acc[r][0] = acc[r][1] = sum_begin(start[r]);
		}
#pragma GCC unroll 2
		for (int h = 0; h < 2; h++)
			add_half(acc, &c->ready->half[t][h], &x, (size_t)h * 16,
				s);
		add_sums(sum, acc, start, c->ready->scale[t], s);
		tile_rows_step(&x, TILE);
		tile_rows_step(&from, 4);
	}
}

static ALWAYS_INLINE void enter_sums(
	vec (*sum)[2], struct block b, const struct shape s, const bool first)
{
	for (int r = 0; r < s.rows; r++) {
		const struct pair p =
			in_order(sum[r][0], sum[r][1], s.v, s.four);
		const vec scale = scale_of(&b);

		enter(b.y + p.at[0], p.v[0], scale, first);
		enter(b.y + p.at[1], p.v[1], scale, first);
		step_rows(&b, 1);
	}
}

/* The number of prefetch steps during the products of a chunk. One step comes
 * with each product of a register tile and a tile of weights. */
static ALWAYS_INLINE unsigned chunk_steps(unsigned rows)
{
	return (rows + ROWS - 1) / ROWS * (STRIP_VECS / 2) * Q8_TILES;
}

/* Process `count` register tiles of `rows` rows each. `after` is the number of
 * rows that remain after these tiles. */
static ALWAYS_INLINE void panels(const struct chunk *c, struct block b,
	unsigned count, unsigned after, struct ahead *ahead, const int rows,
	const bool four, const bool ready)
{
	struct shape s = { .rows = rows, .four = four };

	after += (unsigned)rows * count;
	for (; count; count--, step_rows(&b, (unsigned)rows)) {
		after -= (unsigned)rows;
		rows_after(ahead, b, (unsigned)rows, after);
		/* Unroll the loop so that s.v is a constant. half_codes then
		 * decodes only the two vectors that are used, and in
		 * registers. */
#pragma GCC unroll 2
		for (s.v = 0; s.v < STRIP_VECS; s.v += 2) {
			vec sum[FEW_ROWS][2] = { 0 };

			if (ready)
				ready_sums(sum, c, &b, ahead, s);
			else
				stored_sums(sum, c, &b, s);
			if (b.first)
				enter_sums(sum, b, s, true);
			else
				enter_sums(sum, b, s, false);
		}
	}
}

/* Compile `panels` only for the numbers n of rows per register tile that can
 * occur. If few() is not 0, decoded codes (`ready`) are used only for several
 * register tiles, and each of these then has at least ROWS / 2 rows
 * (rows_next). */
#define PANELS(n)                                                          \
	case n:                                                            \
		if (n <= (ready ? ROWS : FEW_ROWS) &&                      \
			(few(four) ? !ready || 2 * n >= ROWS : ready))     \
			panels(c, b, count, after, ahead, n, four, ready); \
		break;

static ALWAYS_INLINE void multiply(const struct chunk *c, struct block b,
	unsigned rows, unsigned count, unsigned after, struct ahead *ahead,
	const bool four, const bool ready)
{
	switch (rows) {
		PANELS(1)
		PANELS(2)
		PANELS(3)
		PANELS(4)
		PANELS(5)
		PANELS(6)
		PANELS(7)
		PANELS(8)
	}
}

#endif

#endif
