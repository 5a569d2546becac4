/*
 * Loads of the codes of tiles into machine vectors, and dot products of these
 * vectors, for kern_q8.c: with AVX2, AVX-512, AVX-512 VNNI, and Arm's dot
 * products and matrix products (i8mm). A code is a quantized integer; k is the
 * index of an input. A vector has four codes of weights for each of its
 * outputs; these codes are multiplied by four codes of a row of activations.
 * With i8mm, a vector has eight codes for each of two outputs.
 *
 * In tile-q4_0, two bytes of an output that must be adjacent in a vector are 32
 * bytes apart in memory. Two loaded vectors are therefore interleaved before
 * their nibbles are split. The x86 instructions interleave within 16 bytes,
 * which permutes the outputs; in_order restores their order after the sums are
 * complete.
 *
 * Private to kern_q8.c.
 */
#ifndef TENSOR_KERN_Q8_H
#define TENSOR_KERN_Q8_H

#include "tensor/kern_strip.h"

/* Instruction sets that use kern_q8_wide.h. All others use kern_q8_narrow.h. */
#if VEC_LANES > 4 || defined(__ARM_FEATURE_DOTPROD)
#define Q8_WIDE
#endif

/* Bytes of a tile: its codes, followed by 32 scales of fp16. */
static ALWAYS_INLINE size_t tile_size(bool four)
{
	return TILE_VALUES / (four ? 2 : 1) + TILE * 2;
}

/* Prefetch a tile, because the CPU's own prefetcher stops at the end of a
 * page. */
static ALWAYS_INLINE void prefetch(const uint8_t *tile, bool four)
{
	for (size_t i = 0; i < tile_size(four); i += 64)
		__builtin_prefetch(tile + i);
}

/* Two vectors of outputs of a strip (32 outputs). The outputs are in ascending
 * order; at[i] is the index of the first output of v[i]. */
struct pair {
	vec v[2];
	int at[2];
};

/* The codes of a tile for 16 inputs (indices k). w[s] is multiplied by the s-th
 * group of four codes of a row of activations. */
struct half {
	ivec w[4][STRIP_VECS];
};

#if VEC_LANES == 16

static ALWAYS_INLINE __m512i get(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}

static ALWAYS_INLINE ivec all32(const void *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return (ivec)_mm512_set1_epi32(v);
}

/* The codes of 16 inputs: for each output, `even` has the eight codes with k
 * mod 4 = 0 or 1, and `odd` has the eight codes with k mod 4 = 2 or 3. */
struct pairs {
	ivec even, odd;
};

/* Load vector v (0 or 1) of the codes of 16 inputs, which are eight pairs of
 * indices k. Vector 0 has the outputs 0-3, 8-11, 16-19 and 24-27, and vector 1
 * has all other outputs of the tile. */
static ALWAYS_INLINE struct pairs nibble_pairs(const uint8_t *p, const int v)
{
	const __m512i a = get(p), b = get(p + 64);
	const __m512i c = get(p + 128), d = get(p + 192);
	const __m512i ab =
		v ? _mm512_unpackhi_epi8(a, b) : _mm512_unpacklo_epi8(a, b);
	const __m512i cd =
		v ? _mm512_unpackhi_epi8(c, d) : _mm512_unpacklo_epi8(c, d);
	const __m512i l = _mm512_unpacklo_epi16(ab, cd);
	const __m512i r = _mm512_unpackhi_epi16(ab, cd);

	return (struct pairs){ (ivec)_mm512_shuffle_i32x4(l, r, 0x44),
		(ivec)_mm512_shuffle_i32x4(l, r, 0xee) };
}

static ALWAYS_INLINE void half_nibbles(struct half *h, const uint8_t *p)
{
	for (int v = 0; v < 2; v++) {
		const struct pairs q = nibble_pairs(p, v);

		h->w[0][v] = q.even & 0x0f0f0f0f;
		h->w[1][v] = q.even >> 4 & 0x0f0f0f0f;
		h->w[2][v] = q.odd & 0x0f0f0f0f;
		h->w[3][v] = q.odd >> 4 & 0x0f0f0f0f;
	}
}

static ALWAYS_INLINE void nibble_scales(vec d[2], const uint8_t *p)
{
	const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
	const __m512i s = _mm512_permutexvar_epi64(order, get(p));

	d[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(s));
	d[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(s, 1));
}

static ALWAYS_INLINE struct pair in_order(vec a, vec b, int v, bool four)
{
	if (!four)
		return (struct pair){ { a, b }, { 0, 16 } };
	return (struct pair){ { _mm512_shuffle_f32x4(a, b, 0x88),
				      _mm512_shuffle_f32x4(a, b, 0xdd) },
		{ 0, 16 } };
}

#elif VEC_LANES == 8

static ALWAYS_INLINE __m256i get(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i_u *)p);
}

static ALWAYS_INLINE ivec all32(const void *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return (ivec)_mm256_set1_epi32(v);
}

/* Load the codes of 16 inputs, eight pairs of indices k. Vector v has the
 * outputs 4v to 4v + 3 and 4v + 16 to 4v + 19. */
static ALWAYS_INLINE void half_nibbles(struct half *h, const uint8_t *p)
{
	for (int odd = 0; odd < 2; odd++, p += 32) {
		const __m256i a = get(p), b = get(p + 64);
		const __m256i c = get(p + 128), d = get(p + 192);
		const __m256i ab0 = _mm256_unpacklo_epi8(a, b);
		const __m256i ab1 = _mm256_unpackhi_epi8(a, b);
		const __m256i cd0 = _mm256_unpacklo_epi8(c, d);
		const __m256i cd1 = _mm256_unpackhi_epi8(c, d);
		const ivec q[4] = { (ivec)_mm256_unpacklo_epi16(ab0, cd0),
			(ivec)_mm256_unpackhi_epi16(ab0, cd0),
			(ivec)_mm256_unpacklo_epi16(ab1, cd1),
			(ivec)_mm256_unpackhi_epi16(ab1, cd1) };

		for (int v = 0; v < 4; v++) {
			h->w[2 * odd][v] = q[v] & 0x0f0f0f0f;
			h->w[2 * odd + 1][v] = q[v] >> 4 & 0x0f0f0f0f;
		}
	}
}

static ALWAYS_INLINE void nibble_scales(vec d[4], const uint8_t *p)
{
	for (int v = 0; v < 4; v++)
		d[v] = _mm256_cvtph_ps(
			_mm_unpacklo_epi64(_mm_loadu_si64(p + 8 * v),
				_mm_loadu_si64(p + 8 * v + 32)));
}

static ALWAYS_INLINE struct pair in_order(vec a, vec b, int v, bool four)
{
	if (!four)
		return (struct pair){ { a, b }, { 8 * v, 8 * v + 8 } };
	return (struct pair){ { _mm256_permute2f128_ps(a, b, 0x20),
				      _mm256_permute2f128_ps(a, b, 0x31) },
		{ 4 * v, 4 * v + 16 } };
}

#elif defined(__ARM_FEATURE_DOTPROD)

static ALWAYS_INLINE int8x16_t get(const uint8_t *p)
{
	return vld1q_s8((const int8_t *)p);
}

static ALWAYS_INLINE ivec all32(const void *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v - (ivec){ 0 };
}

static ALWAYS_INLINE ivec zip_low(ivec a, ivec b)
{
	return (ivec)vzip1q_s16((int16x8_t)a, (int16x8_t)b);
}

static ALWAYS_INLINE ivec zip_high(ivec a, ivec b)
{
	return (ivec)vzip2q_s16((int16x8_t)a, (int16x8_t)b);
}

/* Load the codes of 16 inputs, eight pairs of indices k. The outputs are in
 * ascending order. */
static ALWAYS_INLINE void half_nibbles(struct half *h, const uint8_t *p)
{
	for (int i = 0; i < 4; i++, p += 16) {
		const int odd = i / 2, from = 4 * (i % 2);
		const int8x16_t a = get(p), b = get(p + 64);
		const int8x16_t c = get(p + 128), d = get(p + 192);
		const ivec ab0 = (ivec)vzip1q_s8(a, b);
		const ivec ab1 = (ivec)vzip2q_s8(a, b);
		const ivec cd0 = (ivec)vzip1q_s8(c, d);
		const ivec cd1 = (ivec)vzip2q_s8(c, d);
		const ivec q[4] = { zip_low(ab0, cd0), zip_high(ab0, cd0),
			zip_low(ab1, cd1), zip_high(ab1, cd1) };

		for (int v = 0; v < 4; v++) {
			h->w[2 * odd][from + v] = q[v] & 0x0f0f0f0f;
			h->w[2 * odd + 1][from + v] = q[v] >> 4 & 0x0f0f0f0f;
		}
	}
}

static ALWAYS_INLINE void nibble_scales(vec d[8], const uint8_t *p)
{
	for (int v = 0; v < 8; v++)
		d[v] = load_f16(p + 8 * v);
}

static ALWAYS_INLINE struct pair in_order(vec a, vec b, int v, bool four)
{
	return (struct pair){ { a, b }, { 4 * v, 4 * v + 4 } };
}

#endif

#ifdef Q8_WIDE

static ALWAYS_INLINE void half_bytes(struct half *h, const uint8_t *p)
{
	for (int s = 0; s < 4; s++)
		for (int v = 0; v < STRIP_VECS; v++) {
			const ivec w =
				(ivec)get(p + s * 128 + v * VEC_LANES * 4);
#ifdef __AVX512VNNI__
			h->w[s][v] = w ^ (int32_t)0x80808080;
#else
			h->w[s][v] = w;
#endif
		}
}

/*
 * With i8mm, a vector must hold eight codes of each of two outputs. For even s,
 * combine w[s][v] and w[s + 1][v], which have four codes of four outputs each:
 * w[s][v] gets all codes of the first two outputs, and w[s + 1][v] gets all
 * codes of the last two outputs.
 */
static ALWAYS_INLINE void join_codes(struct half *h)
{
#ifdef __ARM_FEATURE_MATMUL_INT8
	for (int s = 0; s < 4; s += 2)
		for (int v = 0; v < STRIP_VECS; v++) {
			const int32x4_t a = (int32x4_t)h->w[s][v];
			const int32x4_t b = (int32x4_t)h->w[s + 1][v];

			h->w[s][v] = (ivec)vzip1q_s32(a, b);
			h->w[s + 1][v] = (ivec)vzip2q_s32(a, b);
		}
#endif
}

static ALWAYS_INLINE void half_codes(
	struct half *h, const uint8_t *tile, int half, bool four)
{
	if (four)
		half_nibbles(h, tile + half * 256);
	else
		half_bytes(h, tile + half * 512);
	join_codes(h);
}

static ALWAYS_INLINE void tile_scales(
	vec d[STRIP_VECS], const uint8_t *tile, bool four)
{
	if (four)
		nibble_scales(d, tile + tile_size(true) - 64);
	else
		for (int v = 0; v < STRIP_VECS; v++)
			d[v] = load_f16(tile + tile_size(false) - 64 +
				2 * v * VEC_LANES);
}

#endif

/*
 * The int32 sum of the products w x of one group (32 inputs) is computed in
 * three steps: sum_begin, then dot for every four inputs, then sum_end, which
 * returns the sum. `start` is a correction that is stored with the quantized
 * row: it is necessary because the dot products take the weights as unsigned
 * numbers (kern_tile.h).
 */
#if defined(__AVX512VNNI__)

static ALWAYS_INLINE ivec sum_begin(ivec start)
{
	return start;
}

static ALWAYS_INLINE ivec dot(ivec sum, ivec w, ivec x, bool four)
{
	return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, (__m512i)x);
}

static ALWAYS_INLINE ivec sum_end(ivec sum, ivec start, bool four)
{
	return sum;
}

#elif defined(__ARM_FEATURE_DOTPROD)

static ALWAYS_INLINE ivec sum_begin(ivec start)
{
	return (ivec){ 0 };
}

static ALWAYS_INLINE ivec dot(ivec sum, ivec w, ivec x, bool four)
{
	return (ivec)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)x);
}

static ALWAYS_INLINE ivec sum_end(ivec sum, ivec start, bool four)
{
	return four ? sum + start : sum;
}

#elif VEC_LANES > 4

#if VEC_LANES == 16
static ALWAYS_INLINE ivec maddubs(ivec w, ivec x)
{
	return (ivec)_mm512_maddubs_epi16((__m512i)w, (__m512i)x);
}

static ALWAYS_INLINE ivec add16(ivec a, ivec b)
{
	return (ivec)_mm512_add_epi16((__m512i)a, (__m512i)b);
}

static ALWAYS_INLINE ivec pairs(ivec a)
{
	return (ivec)_mm512_madd_epi16((__m512i)a, _mm512_set1_epi16(1));
}

static ALWAYS_INLINE ivec magnitude(ivec w)
{
	return (ivec)_mm512_abs_epi8((__m512i)w);
}

/* For each byte: x if w >= 0, -x if w < 0. */
static ALWAYS_INLINE ivec signed_by(ivec x, ivec w)
{
	return (ivec)_mm512_mask_sub_epi8((__m512i)x,
		_mm512_movepi8_mask((__m512i)w), _mm512_setzero_si512(),
		(__m512i)x);
}
#else
static ALWAYS_INLINE ivec maddubs(ivec w, ivec x)
{
	return (ivec)_mm256_maddubs_epi16((__m256i)w, (__m256i)x);
}

static ALWAYS_INLINE ivec add16(ivec a, ivec b)
{
	return (ivec)_mm256_add_epi16((__m256i)a, (__m256i)b);
}

static ALWAYS_INLINE ivec pairs(ivec a)
{
	return (ivec)_mm256_madd_epi16((__m256i)a, _mm256_set1_epi16(1));
}

static ALWAYS_INLINE ivec magnitude(ivec w)
{
	return (ivec)_mm256_abs_epi8((__m256i)w);
}

static ALWAYS_INLINE ivec signed_by(ivec x, ivec w)
{
	return (ivec)_mm256_sign_epi8((__m256i)x, (__m256i)w);
}
#endif

static ALWAYS_INLINE ivec sum_begin(ivec start)
{
	return (ivec){ 0 };
}

/*
 * The sum of 16 products of a nibble and an int8 code fits int16 (16 * 15 * 127
 * = 30480). For two int8 codes, only the sum of two products fits int16 (at
 * most 2 * 128 * 127 = 32512), and only if the sign of the weight is moved to
 * the activation: with a weight stored as an unsigned byte, 2 * 255 * 127 would
 * overflow.
 */
static ALWAYS_INLINE ivec dot(ivec sum, ivec w, ivec x, bool four)
{
	if (four)
		sum = add16(sum, maddubs(w, x));
	else
		sum += pairs(maddubs(magnitude(w), signed_by(x, w)));
	/* Force the addition here. Otherwise gcc computes all products of a
	 * tile first and keeps them on the stack. */
	__asm__("" : "+v"(sum));
	return sum;
}

static ALWAYS_INLINE ivec sum_end(ivec sum, ivec start, bool four)
{
	return four ? pairs(sum) + start : sum;
}

#endif

#endif
