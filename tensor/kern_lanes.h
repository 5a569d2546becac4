/*
 * Operations on vectors of sixteen lanes, for the instruction set of this
 * compilation. One machine vector holds 4, 8 or 16 of the lanes. Every
 * operation works on each lane separately and rounds once, so the result does
 * not depend on the width of a machine vector. Private to the kernels that are
 * compiled once for each instruction set.
 */
#ifndef TENSOR_KERN_LANES_H
#define TENSOR_KERN_LANES_H

#include "tensor/kern_impl.h"

#include "tensor/f16.h"

#ifdef __F16C__
#include <immintrin.h>
#endif
#ifdef __ARM_FEATURE_DOTPROD
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define VEC_LANES 16
#elif defined(__AVX2__)
#define VEC_LANES 8
#else
#define VEC_LANES 4
#endif
#define VEC_PARTS     (KERN_LANES / VEC_LANES)

#define JOIN_(a, b)   a##b
#define JOIN(a, b)    JOIN_(a, b)
#define TEXT_(a)      #a
#define TEXT(a)       TEXT_(a)

#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(VEC_LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(VEC_LANES * 4)));
typedef uint32_t uvec __attribute__((vector_size(VEC_LANES * 4)));
typedef uint16_t hvec __attribute__((vector_size(VEC_LANES * 2)));
typedef float vec_any __attribute__((vector_size(VEC_LANES * 4), aligned(1)));

static ALWAYS_INLINE vec load(const float *p)
{
	return *(const vec_any *)p;
}

static ALWAYS_INLINE void store(float *p, vec v)
{
	*(vec_any *)p = v;
}

/* For each lane: a if all bits of the mask are set, b if none is set. */
static ALWAYS_INLINE ivec pick(ivec mask, ivec a, ivec b)
{
	return (mask & a) | (~mask & b);
}

static ALWAYS_INLINE vec pickf(ivec mask, vec a, vec b)
{
	return (vec)pick(mask, (ivec)a, (ivec)b);
}

static ALWAYS_INLINE vec all(float f)
{
	return f - (vec){ 0 };
}

/* For each lane: the maximum of a and b; b if a or b is NaN. */
static ALWAYS_INLINE vec max_vec(vec a, vec b)
{
#if VEC_LANES == 16
	return _mm512_max_ps(a, b);
#elif VEC_LANES == 8
	return _mm256_max_ps(a, b);
#else
	return pickf(a > b, a, b);
#endif
}

/* For each lane: the minimum of a and b; b if a or b is NaN. */
static ALWAYS_INLINE vec min_vec(vec a, vec b)
{
#if VEC_LANES == 16
	return _mm512_min_ps(a, b);
#elif VEC_LANES == 8
	return _mm256_min_ps(a, b);
#else
	return pickf(a < b, a, b);
#endif
}

/* For each lane: the maximum of a and b. */
static ALWAYS_INLINE ivec max_ivec(ivec a, ivec b)
{
#if VEC_LANES == 16
	return (ivec)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif VEC_LANES == 8
	return (ivec)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
	return pick(a > b, a, b);
#endif
}

/* a * b + c, rounded once. */
static ALWAYS_INLINE vec fma_vec(vec a, vec b, vec c)
{
#if VEC_LANES == 16
	return _mm512_fmadd_ps(a, b, c);
#elif VEC_LANES == 8
	return _mm256_fmadd_ps(a, b, c);
#else
	vec sum = { 0 };

	for (int i = 0; i < VEC_LANES; i++)
		sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
	return sum;
#endif
}

/* For each lane, get the table entry whose index is the low four bits of the
 * code. The other bits of the code may have any value. */
static ALWAYS_INLINE vec look(const float table[16], ivec code)
{
#if VEC_LANES == 16
	return _mm512_permutexvar_ps((__m512i)code, load(table));
#elif VEC_LANES == 8
	/* the permutation uses three bits of the code; the blend uses the
	 * fourth */
	return _mm256_blendv_ps(
		_mm256_permutevar8x32_ps(load(table), (__m256i)code),
		_mm256_permutevar8x32_ps(load(table + 8), (__m256i)code),
		(vec)(code << 28));
#else
	vec v;

	for (int l = 0; l < VEC_LANES; l++)
		v[l] = table[code[l] & 15];
	return v;
#endif
}

#ifdef __F16C__
/* Convert fp16 with the conversion instruction, and load weight codes with
 * widening loads. The compiler does not generate these instructions from
 * portable code. */
#ifdef __AVX512F__
static ALWAYS_INLINE vec load_f16(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)p));
}

static ALWAYS_INLINE vec load_i8(const int8_t *p)
{
	const __m128i q = _mm_loadu_si128((const __m128i_u *)p);

	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
}

static ALWAYS_INLINE ivec load_u8(const uint8_t *p)
{
	return (ivec)_mm512_cvtepu8_epi32(
		_mm_loadu_si128((const __m128i_u *)p));
}
#else
static ALWAYS_INLINE vec load_f16(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)p));
}

static ALWAYS_INLINE vec load_i8(const int8_t *p)
{
	const __m128i q = _mm_loadu_si64(p);

	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
}

static ALWAYS_INLINE ivec load_u8(const uint8_t *p)
{
	return (ivec)_mm256_cvtepu8_epi32(_mm_loadu_si64(p));
}
#endif

static ALWAYS_INLINE float row_f16(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return _cvtsh_ss(h);
}

static ALWAYS_INLINE void row_scale(
	float *restrict dst, const int8_t *restrict q, int n, float d)
{
	for (int j = 0; j < n; j += VEC_LANES)
		store(dst + j, load_i8(q + j) * d);
}

static ALWAYS_INLINE void row_scale_add(
	float *restrict dst, const int8_t *restrict q, int n, float d, float m)
{
	for (int j = 0; j < n; j += VEC_LANES)
		store(dst + j, load_i8(q + j) * d + m);
}

static ALWAYS_INLINE void row_look(float *restrict dst,
	const uint8_t *restrict q, const float table[16], float d)
{
	for (int j = 0; j < 16; j += VEC_LANES) {
		const ivec code = load_u8(q + j);

		store(dst + j, look(table, code) * d);
		store(dst + j + 16, look(table, code >> 4) * d);
	}
}

#define ROW_STEPS
#include "tensor/dtype_rows.h"
#else
#include "tensor/dtype_rows.h"

static ALWAYS_INLINE vec load_f16(const uint8_t *p)
{
	uint16_t h __attribute__((vector_size(VEC_LANES * 2)));

	memcpy(&h, p, sizeof(h));
	/* the same computation as in f16_to_f32 */
	const ivec bits = __builtin_convertvector(h, ivec);
	const ivec sign = (bits & 0x8000) << 16, mag = bits & 0x7fff;
	const ivec finite = (ivec)((vec)(mag << 13) * 0x1p112f);

	return (vec)(sign |
		pick(mag >= 0x7c00, 0x7f800000 | mag << 13, finite));
}
#endif

/* Load VEC_LANES values of a row, from the i-th on. The row is fp16 if `f16` is
 * set, else float32. */
static ALWAYS_INLINE vec load_row(const uint8_t *row, size_t i, const bool f16)
{
	if (f16)
		return load_f16(row + 2 * i);
	return load((const float *)(const void *)(row + 4 * i));
}

static ALWAYS_INLINE float lane_sum(const float lane[KERN_LANES])
{
	float t[8];

	for (int i = 0; i < 8; i++)
		t[i] = lane[i] + lane[i + 8];
	for (int i = 0; i < 4; i++)
		t[i] += t[i + 4];
	return (t[0] + t[2]) + (t[1] + t[3]);
}

/*
 * exp in float32 with a relative error below 2e-7. libm's exp is not used,
 * because its result depends on the version of libm and on the CPU. exp_series
 * splits x into n ln 2 + r with |r| <= ln(2)/2, returns e^r by its Taylor
 * series, and sets *exponent to n. exp_vec returns e^x = 2^n e^r: results below
 * 2^-126 become 0, results above FLT_MAX become infinity, and NaN stays NaN.
 */
static ALWAYS_INLINE vec exp_series(vec x, ivec *exponent)
{
	/* adding `magic` to a float rounds the float to an integer */
	const float magic = 0x1.8p23f;
	const vec shifted = x * 0x1.715476p0f + magic;
	const vec n = shifted - magic;
	/* ln 2 is split into two parts; n times the first part is exact */
	const vec r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
	vec p = r * (1.0f / 5040) + 1.0f / 720;

	/* For NaN and for x far below the range of the result, *exponent is
	 * arbitrary. The subtraction is unsigned, because unsigned overflow is
	 * defined. */
	*exponent = (ivec)((uvec)shifted - (uvec)all(magic));
	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	return p * r * r + r + 1;
}

/* Returns 2^n for -127 < n < 128, and arbitrary bits for any other n. */
static ALWAYS_INLINE vec power_of_two(ivec n)
{
	return (vec)(((uvec)n + 127) << 23);
}

static ALWAYS_INLINE vec exp_vec(vec x)
{
	/* max_vec and min_vec return x if it is NaN */
	const vec low = min_vec(all(89), max_vec(all(-88), x));
	ivec n;
	vec p = exp_series(low, &n);

#if VEC_LANES == 16
	p = _mm512_scalef_ps(p, __builtin_convertvector(n, vec));
#else
	/* multiply by 2^n in two steps, because for n = 128 the factor 2^n
	 * would overflow */
	const ivec half = n >> 1, rest = n - half;

	p = p * power_of_two(half) * power_of_two(rest);
#endif
	return (vec)((ivec)p & ~(x < -87.33654f));
}

/*
 * Gives the same bits as exp_vec for x <= 0, and arbitrary bits for x > 0.
 * exp_down is faster than exp_vec: results for x below -87.33654 are replaced
 * by 0, and for other x, 2^n is a normal number, so one multiplication
 * suffices.
 */
static ALWAYS_INLINE vec exp_down(vec x)
{
	ivec n;
	const vec p = exp_series(x, &n) * power_of_two(n);

	return (vec)((ivec)p & ~(x < -87.33654f));
}

static ALWAYS_INLINE hvec narrow(vec x)
{
#if defined(__AVX512F__)
	return (hvec)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX2__)
	return (hvec)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#else
	hvec h;

	for (int l = 0; l < VEC_LANES; l++)
		h[l] = f32_to_f16(x[l]);
	return h;
#endif
}

static ALWAYS_INLINE vec widen(hvec h)
{
	return load_f16((const uint8_t *)&h);
}

/* Round to fp16 and back. Values beyond the range become infinite. */
static ALWAYS_INLINE vec round_weight(vec x)
{
	return widen(narrow(x));
}

/* Round to fp16 and back. Values beyond the range saturate. */
static ALWAYS_INLINE vec round_half(vec x)
{
	const vec low = pickf(x < -F16_MAX, all(-F16_MAX), x);

	return round_weight(pickf(low > F16_MAX, all(F16_MAX), low));
}

/* For each lane, load the table entry whose index is in the lane of i. On x86
 * the instruction reads two bytes beyond each entry. */
static ALWAYS_INLINE ivec gather(const uint16_t *table, ivec i)
{
#if defined(__AVX512F__)
	return (ivec)_mm512_i32gather_epi32((__m512i)i, table, 2) & 0xffff;
#elif defined(__AVX2__)
	const int *base = (const void *)table;

	return (ivec)_mm256_i32gather_epi32(base, (__m256i)i, 2) & 0xffff;
#else
	for (int l = 0; l < VEC_LANES; l++)
		i[l] = table[i[l]];
	return i;
#endif
}

/* 2^x for x <= 0, from the table. For NaN the entry of -infinity is read, which
 * is 0 like the entries for NaN: gather reads two bytes beyond an entry, and
 * the table ends with the last entry for NaN. */
static ALWAYS_INLINE vec exp2_half(const uint16_t *table, vec x)
{
	const ivec mag = __builtin_convertvector(narrow(x), ivec) & 0x7fff;
	const ivec i = pick(mag > 0x7c00, 0x7c00 - (ivec){ 0 }, mag);

	return widen(__builtin_convertvector(gather(table, i), hvec));
}

#define SAME(s, l)    ((l) & (s) ? VEC_LANES + (l) : (l))
#define OTHER(s, l)   ((l) & (s) ? VEC_LANES + ((l) ^ (s)) : (l) ^ (s))
#define FOUR(f, s, l) f(s, l), f(s, l + 1), f(s, l + 2), f(s, l + 3)
#if VEC_LANES == 16
#define EACH(f, s) FOUR(f, s, 0), FOUR(f, s, 4), FOUR(f, s, 8), FOUR(f, s, 12)
#elif VEC_LANES == 8
#define EACH(f, s) FOUR(f, s, 0), FOUR(f, s, 4)
#else
#define EACH(f, s) FOUR(f, s, 0)
#endif

/* Join (add, or take the maximum of) pairs of lanes. Lane l of the result
 * joins the lanes l and l ^ s of vector a if l & s is 0, and of vector b
 * otherwise. */
#define MEET(join, a, b, s)                                \
	join(__builtin_shufflevector(a, b, EACH(SAME, s)), \
		__builtin_shufflevector(a, b, EACH(OTHER, s)))
#define MEET_ALL(join, v, s)          \
	for (int l = 0; l < (s); l++) \
		(v)[l] = MEET(join, (v)[l], (v)[l + (s)], s);
#define ADD(a, b) ((a) + (b))
/* Lane l of the result is lane l ^ s of v. */
#define ACROSS(s, l) ((l) ^ (s))
#define MIRROR(v, s) __builtin_shufflevector(v, v, EACH(ACROSS, s))

#if VEC_LANES == 16
#define LANE_TREE(v, join)   \
	MEET_ALL(join, v, 8) \
	MEET_ALL(join, v, 4) \
	MEET_ALL(join, v, 2) \
	return MEET(join, (v)[0], (v)[1], 1);
#elif VEC_LANES == 8
#define LANE_TREE(v, join)   \
	MEET_ALL(join, v, 4) \
	MEET_ALL(join, v, 2) \
	return MEET(join, (v)[0], (v)[1], 1);
#else
#define LANE_TREE(v, join)   \
	MEET_ALL(join, v, 2) \
	return MEET(join, (v)[0], (v)[1], 1);
#endif

/*
 * Returns a vector whose lane l is the sum of the lanes of v[l], in the order
 * of lane_sum. If a sum of 16 lanes has several machine vectors, the caller has
 * already added them (part_sum). Overwrites v.
 */
static ALWAYS_INLINE vec lane_sums(vec v[VEC_LANES])
{
	LANE_TREE(v, ADD)
}

/* Like lane_sums, but lane l of the result is the maximum of the lanes of v[l].
 * No lane may be NaN. */
static ALWAYS_INLINE vec lane_mosts(vec v[VEC_LANES])
{
	LANE_TREE(v, max_vec)
}

/* Lane l of the result is the sum of the lanes of v[l]. Overwrites v. */
static ALWAYS_INLINE ivec lane_totals(ivec v[VEC_LANES])
{
	LANE_TREE(v, ADD)
}

/* Returns the maximum of the lanes of v. */
static ALWAYS_INLINE int32_t lane_most(ivec v)
{
#if VEC_LANES == 16
	v = max_ivec(v, MIRROR(v, 8));
#endif
#if VEC_LANES >= 8
	v = max_ivec(v, MIRROR(v, 4));
#endif
	v = max_ivec(v, MIRROR(v, 2));
	return max_ivec(v, MIRROR(v, 1))[0];
}

/* Add the VEC_PARTS machine vectors that hold the 16 lanes of one sum, in the
 * order of lane_sum. */
static ALWAYS_INLINE vec part_sum(const vec part[VEC_PARTS])
{
	if (VEC_PARTS == 4)
		return (part[0] + part[2]) + (part[1] + part[VEC_PARTS - 1]);
	if (VEC_PARTS == 2)
		return part[0] + part[VEC_PARTS - 1];
	return part[0];
}

/* load_some loads n < VEC_LANES values and fills the other lanes with zeros;
 * store_some stores the first n lanes. */
static ALWAYS_INLINE vec load_some(const float *p, size_t n)
{
	float pad[VEC_LANES] = { 0 };

	memcpy(pad, p, n * sizeof(*p));
	return load(pad);
}

static ALWAYS_INLINE void store_some(float *p, vec v, size_t n)
{
	memcpy(p, &v, n * sizeof(*p));
}

#endif
