/*
 * Scores of many query heads for one block of keys. The keys are transposed to
 * [element][slot], so that a machine vector holds one element of several slots.
 * The kernel for one row sums a score in the 16 lanes of a vector. This kernel
 * has a vector for each of these 16 lanes instead, with one score in each of
 * its own lanes. It sums each vector by fma, from zero, in ascending order of
 * the elements, and adds the 16 vectors in the order of lane_sum. The result
 * has the same bits, but no lanes within a vector need to be added. If several
 * rows share the block, the transposition saves more time than it takes. Only
 * kern_attend_rows.c includes this file.
 */
#ifndef TENSOR_KERN_TRANSPOSE_H
#define TENSOR_KERN_TRANSPOSE_H

#include "tensor/kern_lanes.h"

/* A register tile has sums for STRIP_HEADS heads, STRIP_VECS vectors of slots
 * and STRIP_LANES of the 16 lanes (partial sums) of a score. With these numbers
 * the tile fits 32 registers (AVX-512) or 16 registers (other instruction
 * sets). */
#define STRIP_HEADS (VEC_LANES == 16 ? 6 : 3)
#define STRIP_VECS  (VEC_LANES == 16 ? 2 : 4)
#define STRIP_LANES (VEC_LANES == 16 ? 2 : 1)

/* One step of the transposition, for each pair of vectors a and b whose numbers
 * differ by s: for each lane l with (l & s) != 0, exchange lane l of a and lane
 * l ^ s of b. */
#define LOWER(s, l) ((l) & (s) ? VEC_LANES + ((l) ^ (s)) : (l))
#define UPPER(s, l) ((l) & (s) ? VEC_LANES + (l) : (l) ^ (s))
#define TRANSPOSE(v, s)                                                        \
	for (int l = 0; l < VEC_LANES; l++)                                    \
		if (!(l & (s))) {                                              \
			const vec a = (v)[l], b = (v)[l + (s)];                \
                                                                               \
			(v)[l] =                                               \
				__builtin_shufflevector(a, b, EACH(LOWER, s)); \
			(v)[l + (s)] =                                         \
				__builtin_shufflevector(a, b, EACH(UPPER, s)); \
		}

/* Transpose: lane l of vector i becomes lane i of vector l. */
static ALWAYS_INLINE void transpose_vecs(vec v[VEC_LANES])
{
#if VEC_LANES >= 16
	TRANSPOSE(v, 8)
#endif
#if VEC_LANES >= 8
	TRANSPOSE(v, 4)
#endif
	TRANSPOSE(v, 2)
	TRANSPOSE(v, 1)
}

/* Transpose n keys of `wide` values, n a multiple of KERN_LANES, to
 * [wide][KERN_ATTEND_BLOCK]. */
static ALWAYS_INLINE void transpose_keys(float *transposed,
	const uint8_t *const *row, uint32_t n, size_t wide, const bool f16)
{
	for (uint32_t j = 0; j < n; j += VEC_LANES)
		for (size_t i = 0; i < wide; i += VEC_LANES) {
			float *to = transposed + i * KERN_ATTEND_BLOCK + j;
			vec v[VEC_LANES];

			for (int l = 0; l < VEC_LANES; l++)
				v[l] = load_row(row[j + (uint32_t)l], i, f16);
			transpose_vecs(v);
			for (int l = 0; l < VEC_LANES; l++)
				store(to + l * KERN_ATTEND_BLOCK, v[l]);
		}
}

/* A score is the sum of KERN_LANES lanes (partial sums). For each score of `mh`
 * heads and STRIP_VECS vectors of slots, compute STRIP_LANES of these lanes (w,
 * w + KERN_LANES / STRIP_LANES and so on), and write their sum to `out`. */
static ALWAYS_INLINE void strip_lanes(vec out[STRIP_HEADS][STRIP_VECS],
	const float *q, const float *k, const size_t wide, const int w,
	const int mh)
{
	const size_t apart = KERN_LANES / STRIP_LANES;
	vec sum[STRIP_LANES][STRIP_HEADS][STRIP_VECS];

	for (int t = 0; t < STRIP_LANES; t++)
		for (int r = 0; r < mh; r++)
			for (int j = 0; j < STRIP_VECS; j++)
				sum[t][r][j] = all(0);
	for (size_t i = (size_t)w; i < wide; i += KERN_LANES)
		for (int t = 0; t < STRIP_LANES; t++) {
			const size_t at = i + (size_t)t * apart;
			const float *kv = k + at * KERN_ATTEND_BLOCK;

			for (int r = 0; r < mh; r++) {
				const vec qv = all(q[(size_t)r * wide + at]);

				for (int j = 0; j < STRIP_VECS; j++)
					sum[t][r][j] = fma_vec(qv,
						load(kv + j * VEC_LANES),
						sum[t][r][j]);
			}
		}
	for (int r = 0; r < mh; r++)
		for (int j = 0; j < STRIP_VECS; j++)
			out[r][j] = STRIP_LANES == 1
				? sum[0][r][j]
				: sum[0][r][j] + sum[STRIP_LANES - 1][r][j];
}

/* Compute the scores of `mh` heads for STRIP_VECS vectors of slots, and store
 * them in s. */
static ALWAYS_INLINE void strip_tile(float *s, const float *q, const float *k,
	const size_t wide, float scale, const int mh)
{
	vec part[KERN_LANES / STRIP_LANES][STRIP_HEADS][STRIP_VECS];

	for (int w = 0; w < KERN_LANES / STRIP_LANES; w++)
		strip_lanes(part[w], q, k, wide, w, mh);
	for (int half = KERN_LANES / STRIP_LANES / 2; half; half /= 2)
		for (int w = 0; w < half; w++)
			for (int r = 0; r < mh; r++)
				for (int j = 0; j < STRIP_VECS; j++)
					part[w][r][j] += part[w + half][r][j];
	for (int r = 0; r < mh; r++)
		for (int j = 0; j < STRIP_VECS; j++)
			store(s + r * KERN_ATTEND_BLOCK + j * VEC_LANES,
				part[0][r][j] * scale);
}

static ALWAYS_INLINE void strip_heads(float *s, const float *q,
	const float *transposed, const size_t wide, uint32_t n, float scale,
	const int mh)
{
	const unsigned step = STRIP_VECS * VEC_LANES;

	for (uint32_t slot = 0; slot < n; slot += step)
		strip_tile(s + slot, q, transposed + slot, wide, scale, mh);
}

static ALWAYS_INLINE void score_wide(float *s, const float *q,
	const float *transposed, unsigned heads, const size_t wide, uint32_t n,
	float scale)
{
	for (unsigned mh; heads; heads -= mh) {
		mh = heads >= STRIP_HEADS ? STRIP_HEADS : heads < 3 ? heads : 3;
		if (mh == 1)
			strip_heads(s, q, transposed, wide, n, scale, 1);
		else if (mh == 2)
			strip_heads(s, q, transposed, wide, n, scale, 2);
		else if (mh == 3)
			strip_heads(s, q, transposed, wide, n, scale, 3);
		else
			strip_heads(
				s, q, transposed, wide, n, scale, STRIP_HEADS);
		s += (size_t)mh * KERN_ATTEND_BLOCK;
		q += mh * wide;
	}
}

/*
 * Compute the scores of `heads` heads, q[heads][wide], for the first n slots,
 * times `scale`. s is [heads][KERN_ATTEND_BLOCK]. Whole register tiles are
 * written, so values after slot n are arbitrary. If `wide` is a constant in a
 * call, the addresses of the heads in a register tile need one register plus
 * constants instead of six registers.
 */
static inline void score_transposed(float *s, const float *q,
	const float *transposed, unsigned heads, size_t wide, uint32_t n,
	float scale)
{
	if (wide == 128)
		score_wide(s, q, transposed, heads, 128, n, scale);
	else if (wide == 64)
		score_wide(s, q, transposed, heads, 64, n, scale);
	else
		score_wide(s, q, transposed, heads, wide, n, scale);
}

#endif
