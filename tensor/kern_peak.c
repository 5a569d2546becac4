/*
 * Measurement of the limits of an instruction set, with which the matrix
 * kernels are compared: the rate of the arithmetic units without loads and
 * stores, and the rate of memory without arithmetic.
 */
#include "tensor/kern_lanes.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

/* number of independent sums: at least the latency of a dot-product instruction
 * in cycles times the number of units that execute it, so that no unit is idle
 */
#define CHAINS 12

/* Hides the value of x from the compiler, which would otherwise remove the
 * loops below. */
#ifdef __x86_64__
#define OPAQUE(x) __asm__ volatile("" : "+x"(x))
#else
#define OPAQUE(x) __asm__ volatile("" : "+w"(x))
#endif

/* Without OPAQUE the compiler would compute only one of the equal chains. */
#define STEP(sum)                     \
	do {                          \
		OPAQUE(a);            \
		sum = dot(sum, a, b); \
		OPAQUE(sum);          \
	} while (0)

/* One step of a dot product of bytes, with the fewest instructions that a
 * kernel needs for it. Without VNNI these are the two instructions for 4-bit
 * weights, whose products can be added as int16. */
#if defined(__AVX512VNNI__)
/* operations of one `dot`: 64 products and 64 additions */
#define INT8_OPS 128
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
	return _mm512_add_epi16(sum, _mm512_maddubs_epi16(a, b));
}
#elif defined(__AVX2__)
#define INT8_OPS 64
typedef __m256i codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
}
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define INT8_OPS 64
typedef ivec codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	return (codes)vmmlaq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
}
#elif defined(__ARM_FEATURE_DOTPROD)
#define INT8_OPS 32
typedef ivec codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	return (codes)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
}
#else
#define INT8_OPS (2 * VEC_LANES)
typedef ivec codes;
static ALWAYS_INLINE codes dot(codes sum, codes a, codes b)
{
	return sum + a * b;
}
#endif

uint64_t JOIN(kern_peak_int8_, KERN_ISA)(uint64_t steps)
{
	/* Use separate variables instead of an array, so that each sum stays in
	 * a register. */
	codes s0 = { 0 }, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
	codes s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
	codes a = s0, b = s0;

	OPAQUE(b);
	for (uint64_t i = 0; i < steps; i++) {
		STEP(s0);
		STEP(s1);
		STEP(s2);
		STEP(s3);
		STEP(s4);
		STEP(s5);
		STEP(s6);
		STEP(s7);
		STEP(s8);
		STEP(s9);
		STEP(s10);
		STEP(s11);
	}
	return steps * CHAINS * INT8_OPS;
}

#ifdef __AVX512VNNI__
/* The rate of AMX: four independent sums, each of 16 rows by 16 outputs over 64
 * inputs. */
__attribute__((target("amx-tile,amx-int8"))) uint64_t kern_peak_int8_amx(
	uint64_t steps)
{
	enum { TILE_ROWS = 16, TILE_BYTES = 64, SUMS = 4, REGISTERS = 8 };
	struct {
		uint8_t palette, start_row, zero[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} shapes = { .palette = 1 };

	for (int i = 0; i < REGISTERS; i++) {
		shapes.bytes[i] = TILE_BYTES;
		shapes.rows[i] = TILE_ROWS;
	}
	__asm__ volatile("" ::"m"(shapes));
	_tile_loadconfig(&shapes);
	steps /= 8; /* a step takes ten times as long as with VNNI */
	for (uint64_t i = 0; i < steps; i++) {
		_tile_dpbssd(0, 4, 6);
		_tile_dpbssd(1, 4, 7);
		_tile_dpbssd(2, 5, 6);
		_tile_dpbssd(3, 5, 7);
	}
	_tile_release();
	return steps * SUMS * TILE_ROWS * TILE_ROWS * TILE_BYTES * 2;
}
#endif

#define READ_STREAMS 2

/* Read two halves of the memory at the same time: measurements show that two
 * streams are faster than one and faster than four. */
void JOIN(kern_peak_read_, KERN_ISA)(const void *bytes, size_t n)
{
	const size_t apart = n / READ_STREAMS / sizeof(vec);
	const vec *p = bytes;

	for (size_t i = 0; i < apart; i++)
		for (size_t s = 0; s < READ_STREAMS; s++) {
			vec x = p[s * apart + i];

			OPAQUE(x);
		}
}
