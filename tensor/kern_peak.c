/*
 * What the arithmetic units give when nothing is loaded or stored: the limit
 * that the matrix kernels of an instruction set are measured against.
 */
#include "tensor/kern_lanes.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define CHAINS 12 /* independent sums: more than latency times units */

/* Keeps the compiler from seeing that nothing changes. */
#define OPAQUE(x) __asm__ volatile("" : "+x"(x))

#if defined(__AVX512VNNI__)
#define INT8_OPS 128 /* 64 products and as many sums */
typedef __m512i codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	return _mm512_dpbusd_epi32(sum, a, b);
}
#elif defined(__AVX512BW__)
#define INT8_OPS 128
typedef __m512i codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	const codes pairs = _mm512_maddubs_epi16(a, b);

	return _mm512_add_epi32(
		sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#elif defined(__AVX2__)
#define INT8_OPS 64
typedef __m256i codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	const codes pairs = _mm256_maddubs_epi16(a, b);

	return _mm256_add_epi32(
		sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#else
#define INT8_OPS (2 * VEC_LANES)
typedef ivec codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	return sum + a * b;
}
#undef OPAQUE
#define OPAQUE(x) __asm__ volatile("" : "+m"(x))
#endif

uint64_t JOIN(kern_peak_int8_, KERN_ISA)(uint64_t steps)
{
	codes sum[CHAINS] = { 0 };
	codes a = sum[0], b = sum[0];

	for (uint64_t i = 0; i < steps; i++) {
		OPAQUE(a);
		for (int c = 0; c < CHAINS; c++)
			sum[c] = dot(sum[c], a, b);
	}
	for (int c = 0; c < CHAINS; c++)
		OPAQUE(sum[c]);
	return steps * CHAINS * INT8_OPS;
}
