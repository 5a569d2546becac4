/*
 * Decoders of stored rows, as inline functions. dtype.c uses them in its table,
 * and kern_vec.c compiles copies of them for each instruction set. Both files
 * compile the decoders from this source, so the decoders give the same bits.
 * Private to tensor/.
 *
 * Layouts are as in ggml's GGUF files. In the 4-bit and 5-bit formats with
 * blocks of 32 values, byte j holds the low four bits of code j (low nibble)
 * and of code j + 16 (high nibble). Scales are fp16. Every product is rounded
 * once, in the order written here.
 */
#ifndef TENSOR_DTYPE_ROWS_H
#define TENSOR_DTYPE_ROWS_H

#include "tensor/f16.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* number of values in a block of a simple format, such as q4_0 */
#define Q_BLOCK 32
/* number of values in a block of a K format, such as q4_k */
#define K_BLOCK 256

static inline uint16_t row_u16(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return h;
}

/*
 * Tables of the formats whose codes of four bits are indices: a value is a
 * table entry times the scale.
 *
 * lut_nf4 has the quantiles of a normal distribution (Dettmers et al., "QLoRA",
 * 2023, appendix E), rounded to fp16, because the table of a phone's look-up
 * instruction holds fp16 values. lut_fp4 has twice the values of E2M1 numbers
 * (sign, two bits of exponent, one of fraction), which are integers, as in
 * ggml.
 */
static const float lut_q4_0[16] = { -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3,
	4, 5, 6, 7 };
static const float lut_iq4_nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
	1, 13, 25, 38, 53, 69, 89, 113 };
static const float lut_nf4[16] = { -1, -0.6962890625f, -0.52490234375f,
	-0.39501953125f, -0.284423828125f, -0.184814453125f, -0.091064453125f,
	0, 0.07958984375f, 0.160888671875f, 0.24609375f, 0.337890625f,
	0.440673828125f, 0.5625f, 0.72314453125f, 1 };
static const float lut_fp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4,
	-6, -8, -12 };

/* Operations that the decoders of all formats use. If kern_lanes.h has its own
 * versions of these functions for an instruction set, it defines ROW_STEPS. */
#ifndef ROW_STEPS
static inline float row_f16(const uint8_t *p)
{
	return f16_to_f32(row_u16(p));
}

/* row_scale multiplies n codes by d; row_scale_add also adds m to each product.
 * n is a multiple of 16. */
static inline void row_scale(
	float *restrict dst, const int8_t *restrict q, int n, float d)
{
	/* Do not unroll: the compiler unrolls a loop before it vectorizes, and
	 * cannot vectorize the unrolled loop. */
#pragma GCC unroll 1
	for (int j = 0; j < n; j++)
		dst[j] = (float)q[j] * d;
}

static inline void row_scale_add(
	float *restrict dst, const int8_t *restrict q, int n, float d, float m)
{
#pragma GCC unroll 1
	for (int j = 0; j < n; j++)
		dst[j] = (float)q[j] * d + m;
}

/* Decode 32 values from 16 bytes: a value is the table entry of a nibble times
 * d. The low nibbles give the first 16 values, the high nibbles the others. */
static inline void row_look(float *restrict dst, const uint8_t *restrict q,
	const float table[16], float d)
{
	for (int j = 0; j < 16; j++) {
		dst[j] = table[q[j] & 15] * d;
		dst[j + 16] = table[q[j] >> 4] * d;
	}
}
#endif

static inline void f32_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	memcpy(dst, src, n * sizeof(*dst));
}

static inline void f16_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;

	for (size_t i = 0; i < n; i++)
		dst[i] = row_f16(p + 2 * i);
}

static inline void bf16_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;

	for (size_t i = 0; i < n; i++)
		dst[i] = bf16_to_f32(row_u16(p + 2 * i));
}

/* A block is { f16 d; i8 q[32]; }. A value is d * q. */
static inline void q8_0_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 34)
		row_scale(dst, (const int8_t *)p + 2, Q_BLOCK, row_f16(p));
}

/*
 * Codes (the stored integers) are unpacked 16 bytes at a time, in vector types.
 * If the code were a loop over bytes, the compiler would unroll the loop and
 * could not vectorize the unrolled loop.
 */
typedef uint8_t row_v16 __attribute__((vector_size(16)));

static inline row_v16 row_get(const uint8_t *p)
{
	row_v16 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void row_put(int8_t *q, row_v16 v)
{
	memcpy(q, &v, sizeof(v));
}

/* Unpack 16 bytes to 32 codes: first the low nibbles, then the high nibbles,
 * each minus `bias`. */
static inline void row_nibbles(int8_t *q, const uint8_t *p, uint8_t bias)
{
	const row_v16 v = row_get(p);

	row_put(q, (v & 15) - bias);
	row_put(q + 16, (v >> 4) - bias);
}

/* A block is { f16 d; u8 q[16]; }. A value is d * (q - 8). */
static inline void q4_0_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	int8_t q[Q_BLOCK];

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 18) {
		row_nibbles(q, p + 2, 8);
		row_scale(dst, q, Q_BLOCK, row_f16(p));
	}
}

/* A block is { f16 d, m; u8 q[16]; }. A value is d * q + m. */
static inline void q4_1_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	int8_t q[Q_BLOCK];

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 20) {
		row_nibbles(q, p + 4, 0);
		row_scale_add(dst, q, Q_BLOCK, row_f16(p), row_f16(p + 2));
	}
}

/*
 * Convert eight bits to eight bytes of 0 or 16, the lowest bit first. Each step
 * halves the groups of adjacent bits. A multiplication would be shorter but is
 * not vectorized.
 */
static inline uint64_t row_spread(uint8_t bits)
{
	uint64_t x = bits;

	x = (x | x << 28) & 0x0000000f0000000fu;
	x = (x | x << 14) & 0x0003000300030003u;
	x = (x | x << 7) & 0x0101010101010101u;
	return x << 4;
}

/* Unpack 32 codes of five bits, and subtract `bias` from each. The low four
 * bits of the codes are nibbles in low[16], and the fifth bits are in bits[4].
 */
static inline void row_fives(
	int8_t *q, const uint8_t *bits, const uint8_t *low, uint8_t bias)
{
	typedef uint64_t two __attribute__((vector_size(16)));
	const row_v16 v = row_get(low);
	const two a = { row_spread(bits[0]), row_spread(bits[1]) };
	const two b = { row_spread(bits[2]), row_spread(bits[3]) };

	row_put(q, ((v & 15) | (row_v16)a) - bias);
	row_put(q + 16, ((v >> 4) | (row_v16)b) - bias);
}

/* A block is { f16 d; u8 high[4], q[16]; }. A value is d * (q - 16). */
static inline void q5_0_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	int8_t q[Q_BLOCK];

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 22) {
		row_fives(q, p + 2, p + 6, 16);
		row_scale(dst, q, Q_BLOCK, row_f16(p));
	}
}

/* A block is { f16 d, m; u8 high[4], q[16]; }. A value is d * q + m. */
static inline void q5_1_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	int8_t q[Q_BLOCK];

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 24) {
		row_fives(q, p + 4, p + 8, 0);
		row_scale_add(dst, q, Q_BLOCK, row_f16(p), row_f16(p + 2));
	}
}

/*
 * Unpack scale j and minimum j. The eight scales and eight minima, 6 bits each,
 * are stored in 12 bytes. The low six bits of bytes 0-3 are scales 0-3, and the
 * low six bits of bytes 4-7 are minima 0-3. Bytes 8-11 hold the low nibbles of
 * scales 4-7 and (in the high nibble) of minima 4-7; the upper two bits of
 * scales 4-7 are the top bits of bytes 0-3, and the upper two bits of minima
 * 4-7 are the top bits of bytes 4-7.
 */
static inline void row_k_scale(
	const uint8_t *s, int j, uint8_t *scale, uint8_t *min)
{
	if (j < 4) {
		*scale = s[j] & 63;
		*min = s[j + 4] & 63;
	} else {
		*scale = (uint8_t)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
		*min = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
	}
}

/* Decode group g (32 values) of a block: a value is d * scale * code - dmin *
 * minimum. `head` points to d, which dmin, the scales and the minima follow. */
static inline void row_k_group(float *restrict dst, const int8_t *restrict q,
	const uint8_t *restrict head, int g)
{
	const float d = row_f16(head), dmin = row_f16(head + 2);
	uint8_t s, m;

	row_k_scale(head + 4, g, &s, &m);
	row_scale_add(dst, q, 32, d * (float)s, -(dmin * (float)m));
}

/*
 * A block is { f16 d, dmin; u8 s[12], q[128]; }. A value is d * scale * q -
 * dmin * min. Each 32 bytes of q hold two groups of 32 values, the first in the
 * low nibbles and the second in the high nibbles.
 */
static inline void q4_k_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	int8_t q[64];

	for (; n; n -= K_BLOCK, p += 144) {
		for (int g = 0; g < 8; g += 2, dst += 64) {
			for (int h = 0; h < 32; h += 16) {
				const row_v16 v = row_get(p + 16 + g * 16 + h);

				row_put(q + h, v & 15);
				row_put(q + 32 + h, v >> 4);
			}
			row_k_group(dst, q, p, g);
			row_k_group(dst + 32, q + 32, p, g + 1);
		}
	}
}

/* Returns bit g of each of 16 bytes, as 0 or 16. */
static inline row_v16 row_bit(row_v16 v, int g)
{
	return (row_v16)((v & (uint8_t)(1 << g)) != 0) & 16;
}

/*
 * A block is { f16 d, dmin; u8 s[12], high[32], q[128]; }. A block is like a
 * block of q4_k, except that codes have five bits: the fifth bit of value j of
 * group g is bit g of high[j].
 */
static inline void q5_k_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	int8_t q[64];

	for (; n; n -= K_BLOCK, p += 176) {
		for (int g = 0; g < 8; g += 2, dst += 64) {
			for (int h = 0; h < 32; h += 16) {
				const row_v16 v = row_get(p + 48 + g * 16 + h);
				const row_v16 top = row_get(p + 16 + h);

				row_put(q + h, (v & 15) | row_bit(top, g));
				row_put(q + 32 + h,
					(v >> 4) | row_bit(top, g + 1));
			}
			row_k_group(dst, q, p, g);
			row_k_group(dst + 32, q + 32, p, g + 1);
		}
	}
}

/*
 * Decode half a block, 128 values. A block is { u8 q[128], high[64]; i8 s[16];
 * f16 d; }. A value is d * s * (q - 32). Each half has 64 bytes of q (low
 * nibbles: values 0-63, high nibbles: values 64-127), 32 bytes of high (byte j
 * has the top two bits of the values j, j + 32, j + 64 and j + 96), and one
 * scale s for each 16 values.
 */
static inline void q6_k_half(float *restrict dst, const uint8_t *restrict low,
	const uint8_t *restrict top, const uint8_t *restrict scale, float d)
{
	int8_t q[128];

	for (int h = 0; h < 32; h += 16) {
		const row_v16 a = row_get(low + h), b = row_get(low + 32 + h);
		const row_v16 t = row_get(top + h);

		row_put(q + h, ((a & 15) | (t & 3) << 4) - 32);
		row_put(q + 32 + h, ((b & 15) | (t & 12) << 2) - 32);
		row_put(q + 64 + h, (a >> 4 | (t & 48)) - 32);
		row_put(q + 96 + h, (b >> 4 | (t & 192) >> 2) - 32);
	}
	for (int g = 0; g < 8; g++)
		row_scale(dst + 16 * g, q + 16 * g, 16,
			d * (float)(int8_t)scale[g]);
}

static inline void q6_k_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;

	for (; n; n -= K_BLOCK, dst += K_BLOCK, p += 210) {
		const float d = row_f16(p + 208);

		q6_k_half(dst, p, p + 128, p + 192, d);
		q6_k_half(dst + 128, p + 64, p + 160, p + 200, d);
	}
}

/* A block is { f16 d; u8 q[16]; }. A value is d * table[q]. */
static inline void lut_row(float *restrict dst, const void *restrict src,
	size_t n, const float table[16])
{
	const uint8_t *p = src;

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 18)
		row_look(dst, p + 2, table, row_f16(p));
}

static inline void iq4_nl_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	lut_row(dst, src, n, lut_iq4_nl);
}

static inline void nf4_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	lut_row(dst, src, n, lut_nf4);
}

static inline void fp4_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	lut_row(dst, src, n, lut_fp4);
}

/* A block is { u8 e, q[16]; }. A value is 2^(e - 128) * lut_fp4[q], which is
 * 2^(e - 127) times an E2M1 number. As in ggml, e = 255 is not a NaN. */
static inline void mxfp4_row(
	float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;

	for (; n; n -= Q_BLOCK, dst += Q_BLOCK, p += 17)
		row_look(dst, p + 1, lut_fp4,
			f32_from_bits(
				*p < 2 ? 0x200000u << *p : (*p - 1u) << 23));
}

#endif
