/*
 * Products of int8 activations and tiled weights, and the quantization of the
 * activations. Compiled once for each instruction set with -DKERN_ISA=.
 *
 * A strip (the weights of 32 outputs) is processed in chunks of 256 inputs
 * (indices k), whose activations share a scale. The sums of a chunk for a block
 * of rows stay in registers and are added to the outputs at the end of the
 * chunk. The codes (quantized weights) of the chunk must be arranged in the
 * order of the dot products. For many rows the codes are arranged once, in the
 * workspace; for few rows they are arranged in registers, again for each
 * register tile of rows. All other operations are the same, so the result does
 * not depend on the number of rows.
 */
#include "tensor/kern_q8_chunk.h"
#include "tensor/kern_q8_narrow.h"
#include "tensor/kern_q8_wide.h"

/* ---- quantization of activations ---- */

/* Clamp magnitudes to Q8_HUGE; NaN becomes 0. */
static ALWAYS_INLINE vec saturated(vec v)
{
	v = pickf(v == v, v, all(0));
	v = pickf(v > Q8_HUGE, all(Q8_HUGE), v);
	return pickf(v < -Q8_HUGE, all(-Q8_HUGE), v);
}

/* Returns the largest magnitude of n values. The bits of magnitudes are
 * compared as integers: these integers have the same order as the values, and
 * NaN is above all values. */
static ALWAYS_INLINE float largest(
	const float *x, unsigned n, const bool saturate)
{
	ivec most[STRIP_VECS] = { 0 };
	int32_t bits;
	float m;

	for (unsigned i = 0; i < n; i += TILE)
		for (int p = 0; p < STRIP_VECS; p++) {
			const vec v = load(x + i + p * VEC_LANES);

			most[p] = max_ivec(most[p],
				(ivec)(saturate ? saturated(v) : v) &
					INT32_MAX);
		}
	for (int p = 1; p < STRIP_VECS; p++)
		most[0] = max_ivec(most[0], most[p]);
	bits = lane_most(most[0]);
	memcpy(&m, &bits, sizeof(m));
	return m;
}

typedef int8_t lanes8 __attribute__((vector_size(VEC_LANES)));
typedef int8_t sixteen __attribute__((vector_size(16)));

/* q[i] = x[i] * inverse for n values, rounded to the nearest integer, ties to
 * even. The lanes of sum[t] add up to the sum of the codes of tile t. */
static ALWAYS_INLINE void codes_of(int8_t *q, ivec *sum, const float *x,
	unsigned n, float inverse, const bool saturate)
{
	/* adding `magic` to a float rounds the float to an integer */
	const float magic = 0x1.8p23f;

	for (unsigned t = 0; t < n / TILE; t++) {
		sum[t] = (ivec){ 0 };
		for (int p = 0; p < TILE; p += VEC_LANES) {
			const vec v = load(x + t * TILE + p);
			const vec whole =
				(saturate ? saturated(v) : v) * inverse + magic;
			const ivec code = (ivec)whole - (ivec)all(magic);
			const lanes8 c = __builtin_convertvector(code, lanes8);

			memcpy(q + t * TILE + p, &c, sizeof(c));
			sum[t] += code;
		}
	}
}

/* Quantize a group of n values to int8 codes. Returns the scale of the group.
 */
static ALWAYS_INLINE float quantize_group(
	int8_t *q, ivec *sum, const float *x, unsigned n)
{
	float most = largest(x, n, false);
	const bool saturate = !(most <= Q8_HUGE);

	if (saturate)
		most = largest(x, n, true);
	if (most < Q8_TINY) {
		memset(q, 0, n);
		memset(sum, 0, n / TILE * sizeof(*sum));
		return 0;
	}
	if (saturate)
		codes_of(q, sum, x, n, 127 / most, true);
	else
		codes_of(q, sum, x, n, 127 / most, false);
	return most / 127;
}

/* Write 16 codes to `to` in the order of a transposed 4 by 4 matrix
 * (kern_tile.h). */
static ALWAYS_INLINE void permute(int8_t *to, const int8_t *from)
{
	sixteen c;

	memcpy(&c, from, sizeof(c));
	c = __builtin_shufflevector(
		c, c, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	memcpy(to, &c, sizeof(c));
}

/* The number of vectors that a group's sums of codes need: one for each tile,
 * and a whole number of calls of lane_totals. */
#define SUM_VECS (VEC_LANES > Q8_TILES ? VEC_LANES : Q8_TILES)

void JOIN(kern_quantize_, KERN_ISA)(void *dst, const float *x, unsigned k)
{
	uint8_t *const p = dst;
	int8_t *const q = dst, *const permuted = q + q8_permuted_at(k);
	uint8_t *start[] = { p + q8_start_at(k, true),
		p + q8_start_at(k, false) };
	uint8_t *scale_at = p + q8_scale_at(k);

	for (unsigned i = 0; i < k; i += Q8_GROUP, scale_at += sizeof(float)) {
		const unsigned n = k - i < Q8_GROUP ? k - i : Q8_GROUP;
		const size_t bytes = n / TILE * sizeof(int32_t);
		ivec sum[SUM_VECS] = { 0 }, total[SUM_VECS / VEC_LANES];
		const float scale = quantize_group(q + i, sum, x + i, n);

		memcpy(scale_at, &scale, sizeof(scale));
		for (unsigned j = i; j < i + n; j += 16)
			permute(permuted + j, q + j);
		for (int t = 0; t < SUM_VECS; t += VEC_LANES)
			total[t / VEC_LANES] = lane_totals(sum + t) * -8;
		memcpy(start[0], total, bytes);
		for (int t = 0; t < SUM_VECS; t += VEC_LANES)
			total[t / VEC_LANES] *= 16;
		memcpy(start[1], total, bytes);
		start[0] += bytes;
		start[1] += bytes;
	}
	memset(scale_at, 0, (size_t)(p + kern_q8_bytes(k) - scale_at));
}

_Static_assert(sizeof(struct ready) <= TILE_SCRATCH, "workspace");

/* ---- products with strips of weights ---- */

/* Multiply a chunk of weights (32 outputs by up to 256 inputs) by all rows, in
 * register tiles of the sizes that rows_next returns. */
static ALWAYS_INLINE void chunk_rows(const struct chunk *c, struct block b,
	unsigned rows, struct ahead *ahead, const bool four, const bool ready)
{
	const unsigned most = ready || rows > FEW_ROWS ? ROWS : FEW_ROWS;

	while (rows) {
		const unsigned step = rows_next(rows, most);
		const unsigned count = rows >= 2 * most ? rows / most - 1 : 1;

		rows -= step * count;
		multiply(c, b, step, count, rows, ahead, four, ready);
		step_rows(&b, step * count);
	}
}

/* How far ahead weights are prefetched, in bytes, if one register tile has all
 * rows. With several register tiles, the whole next chunk is prefetched, so
 * that it is read during the products of all of them. */
#define AHEAD 4096

/* Multiply a strip, or several strips that are `apart` strips apart, chunk by
 * chunk in turn. */
static ALWAYS_INLINE void strip(struct block b, const uint8_t *w,
	const unsigned strips, unsigned apart, unsigned rows, unsigned k,
	struct ready *ready, const bool four, const bool store_codes)
{
	const size_t bytes = Q8_TILES * tile_size(four);
	struct ahead ahead = { .lines =
				       lines_a_step(bytes, chunk_steps(rows)) };

	for (unsigned i = 0; i < k / TILE; i += Q8_TILES, w += bytes) {
		struct chunk c = { .w = w,
			.ahead = rows > FEW_ROWS ? bytes : AHEAD,
			.ready = ready };
		struct block at = b;

		c.tiles = k / TILE - i < Q8_TILES ? k / TILE - i : Q8_TILES;
		for (unsigned s = 0; s < strips; s++) {
			ahead.weights = c.w + bytes;
			if (store_codes)
				make_ready(ready, &c, four);
			chunk_rows(&c, at, rows, &ahead, four, store_codes);
			c.w += apart * (k / TILE) * tile_size(four);
			at.y += apart * TILE;
		}
		b.codes += Q8_GROUP;
		b.start += Q8_TILES * sizeof(int32_t);
		b.scale += sizeof(float);
		b.first = false;
	}
}

typedef void strip_fn(const struct block *, const uint8_t *w, unsigned rows,
	unsigned k, void *scratch);

/* Each combination of `four` and `store_codes` is a separate function. If gcc
 * inlined all of them into one function, that function would need more
 * registers than the CPU has. */
#define STRIP_FN(name, four, store_codes)                                   \
	static __attribute__((noinline)) void name(const struct block *b,   \
		const uint8_t *w, unsigned rows, unsigned k, void *scratch) \
	{                                                                   \
		strip(*b, w, 1, 0, rows, k, scratch, four, store_codes);    \
	}

STRIP_FN(q4_few, true, false)
STRIP_FN(q8_few, false, false)
STRIP_FN(q4_many, true, true)
STRIP_FN(q8_many, false, true)

/* Up to this number of rows are multiplied by two strips of 4-bit codes in
 * turn: the CPU then waits for memory, and reads faster from two places than
 * from one. */
#define TWO_STRIPS_ROWS 2

/* Multiply up to TWO_STRIPS_ROWS rows by 2 * half strips of 4-bit codes. */
static __attribute__((noinline)) void q4_halves(struct block b,
	const uint8_t *w, unsigned half, unsigned rows, unsigned k)
{
	const size_t bytes = k / TILE * tile_size(true);

	for (unsigned i = 0; i < half; i++, w += bytes, b.y += TILE)
		strip(b, w, 2, half, rows, k, NULL, true, false);
}

/* Process the last strip if it has only n < 32 outputs: compute 32 outputs and
 * copy n of them to y. */
static void short_strip(strip_fn *fn, struct block b, const uint8_t *w,
	unsigned n, unsigned rows, unsigned k, void *scratch)
{
	const size_t ldy = b.ldy;
	float *y = b.y, whole[ROWS][TILE];

	b.ldy = TILE;
	for (unsigned step; rows; rows -= step) {
		step = rows < ROWS ? rows : ROWS;
		b.y = whole[0];
		fn(&b, w, step, k, scratch);
		for (unsigned r = 0; r < step; r++, y += ldy)
			memcpy(y, whole[r], n * sizeof(*y));
		step_rows(&b, step);
	}
}

/* For each strip of weights, call fns[a][b], where a is 1 for 4-bit codes, and
 * b is 1 if there are more than few() rows, so that the codes are arranged in
 * the workspace. */
static ALWAYS_INLINE void multiply_strips(strip_fn *const fns[2][2], float *y,
	size_t ldy, const void *xq, unsigned rows, enum dtype wt, const void *w,
	unsigned n, unsigned k, void *scratch)
{
	const bool four = wt == DTYPE_TILE_Q4_0;
	const size_t bytes = k / TILE * tile_size(four);
	const uint8_t *x = xq, *at = w;
	struct block b = { x + (four && PERMUTED ? q8_permuted_at(k) : 0),
		x + q8_start_at(k, four), x + q8_scale_at(k), kern_q8_bytes(k),
		y, ldy, true };

	/* kernels whose few() is 0 must store the decoded codes */
	if (four && rows <= TWO_STRIPS_ROWS && rows <= few(four)) {
		const unsigned half = n / TILE / 2;

		q4_halves(b, at, half, rows, k);
		n -= 2 * half * TILE;
		at += 2 * half * bytes;
		b.y += 2 * half * TILE;
	}
	for (; n >= TILE; n -= TILE, at += bytes, b.y += TILE)
		fns[four][rows > few(four)](&b, at, rows, k, scratch);
	if (n)
		short_strip(fns[four][ROWS > few(four)], b, at, n, rows, k,
			scratch);
}

void JOIN(kern_matmul_q8_, KERN_ISA)(float *y, size_t ldy, const void *xq,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	void *scratch)
{
	static strip_fn *const fns[2][2] = { { q8_few, q8_many },
		{ q4_few, q4_many } };

	multiply_strips(fns, y, ldy, xq, rows, wt, w, n, k, scratch);
}

#ifdef __AVX512VNNI__
/* included here, because it uses the functions above */
#include "tensor/kern_q8_amx.h"

void kern_matmul_q8_amx(float *y, size_t ldy, const void *xq, unsigned rows,
	enum dtype wt, const void *w, unsigned n, unsigned k, void *scratch)
{
	static strip_fn *const fns[2][2] = { { q8_amx, q8_amx },
		{ q4_amx, q4_amx } };

	if (rows < AMX_LEAST)
		JOIN(kern_matmul_q8_, KERN_ISA)
	(y, ldy, xq, rows, wt, w, n, k, scratch);
	else multiply_strips(fns, y, ldy, xq, rows, wt, w, n, k, scratch);
}
#endif
