#include "tensor/dtype.h"

#include "base/checked.h"
#include "tensor/dtype_rows.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <strings.h>

static void f32_to_row(void *dst, const float *src, size_t n)
{
	memcpy(dst, src, n * sizeof(*src));
}

static void f16_to_row(void *dst, const float *src, size_t n)
{
	uint8_t *p = dst;

	for (size_t i = 0; i < n; i++) {
		const uint16_t h = f32_to_f16(src[i]);

		memcpy(p + 2 * i, &h, sizeof(h));
	}
}

static void bf16_to_row(void *dst, const float *src, size_t n)
{
	uint8_t *p = dst;

	for (size_t i = 0; i < n; i++) {
		const uint16_t h = f32_to_bf16(src[i]);

		memcpy(p + 2 * i, &h, sizeof(h));
	}
}

/*
 * The quantizers (the functions *_to_row) give the same bits as ggml's
 * reference: the codes are the values times 1 / d, where d is the scale in
 * float32, although the scale is stored as fp16. clamp_int limits codes to the
 * range of the format, and prevents the conversion of infinities and NaN to
 * int, which is undefined in C.
 */
static int clamp_int(float v, float low, float high)
{
	v = v > low ? v : low; /* NaN becomes `low` too */
	return (int)(v < high ? v : high);
}

/* The largest magnitude in a block; NaN counts as 0. The loop computes eight
 * maxima side by side, so that the compiler vectorizes it. */
static float magnitude_of(const float *src)
{
	float most[8] = { 0 };

	for (int i = 0; i < Q_BLOCK; i += 8)
		for (int j = 0; j < 8; j++) {
			const float a = fabsf(src[i + j]);

			most[j] = a > most[j] ? a : most[j];
		}
	for (int width = 4; width; width /= 2)
		for (int j = 0; j < width; j++)
			most[j] = most[j] > most[j + width] ? most[j]
							    : most[j + width];
	return most[0];
}

/* Returns a value whose integral part is roundf(v), v rounded to the nearest
 * integer, halves away from zero. A call of roundf would be slower. The addend
 * is the largest float below 0.5: with 0.5 as addend, the largest v below 0.5
 * would be rounded to 1. */
static float nearest(float v)
{
	return v + copysignf(0x1.fffffep-2f, v);
}

static void q8_0_to_row(void *dst, const float *src, size_t n)
{
	uint8_t *p = dst;

	for (; n; n -= Q_BLOCK, src += Q_BLOCK, p += 34) {
		const float d = magnitude_of(src) / 127;
		const float inverse = d != 0 ? 1 / d : 0;
		const uint16_t h = f32_to_f16(d);

		memcpy(p, &h, sizeof(h));
		for (int j = 0; j < Q_BLOCK; j++)
			p[2 + j] = (uint8_t)clamp_int(
				nearest(src[j] * inverse), -128, 127);
	}
}

/* The value with the largest magnitude in a block; the first one if several
 * values have this magnitude. */
static float most_of(const float *src)
{
	const float most = magnitude_of(src);

	if (most == 0)
		return 0; /* return 0, not -0 */
	while (fabsf(*src) != most)
		src++;
	return *src;
}

static void q4_0_to_row(void *dst, const float *src, size_t n)
{
	uint8_t *p = dst;

	for (; n; n -= Q_BLOCK, src += Q_BLOCK, p += 18) {
		/* The value of largest magnitude gets the code -8, because
		 * codes range from -8 to 7. */
		const float d = most_of(src) / -8, inverse = d != 0 ? 1 / d : 0;
		const uint16_t h = f32_to_f16(d);

		memcpy(p, &h, sizeof(h));
		for (int j = 0; j < 16; j++) {
			const float a = src[j] * inverse + 8.5f;
			const float b = src[j + 16] * inverse + 8.5f;

			p[2 + j] = (uint8_t)(clamp_int(a, 0, 15) |
				clamp_int(b, 0, 15) << 4);
		}
	}
}

/* For each of 32 values, choose the code whose table entry times d is nearest
 * to the value. If two entries are equally near, the lower code is chosen. The
 * loop over codes is the outer loop, so that the compiler vectorizes the loop
 * over values. */
static void nearest_codes(
	uint8_t *q, const float *src, const float table[16], float d)
{
	const float inverse = d != 0 ? 1 / d : 0;
	float least[Q_BLOCK];
	int32_t best[Q_BLOCK] = { 0 };

	for (int j = 0; j < Q_BLOCK; j++)
		least[j] = fabsf(src[j] * inverse - table[0]);
	for (int32_t c = 1; c < 16; c++)
		for (int j = 0; j < Q_BLOCK; j++) {
			const float far = fabsf(src[j] * inverse - table[c]);

			best[j] = far < least[j] ? c : best[j];
			least[j] = far < least[j] ? far : least[j];
		}
	for (int j = 0; j < 16; j++)
		q[j] = (uint8_t)(best[j] | best[j + 16] << 4);
}

/*
 * Encode n values by a table of 16 entries, in blocks. The value of largest
 * magnitude in a block gets the entry `top`. If `top` is negative, the scale
 * has the opposite sign of this value, as in Q4_0. Otherwise the entries +top
 * and -top exist, and the scale is not negative. Unlike ggml's quantizer of
 * IQ4_NL, this function tries one scale only.
 */
static void lut_to_row(
	void *dst, const float *src, size_t n, const float table[16], float top)
{
	uint8_t *p = dst;

	for (; n; n -= Q_BLOCK, src += Q_BLOCK, p += 18) {
		const float most = most_of(src);
		const float d = (top < 0 ? most : fabsf(most)) / top;
		const uint16_t h = f32_to_f16(d);

		memcpy(p, &h, sizeof(h));
		nearest_codes(p + 2, src, table, d);
	}
}

static void iq4_nl_to_row(void *dst, const float *src, size_t n)
{
	lut_to_row(dst, src, n, lut_iq4_nl, lut_iq4_nl[0]);
}

static void nf4_to_row(void *dst, const float *src, size_t n)
{
	lut_to_row(dst, src, n, lut_nf4, lut_nf4[15]);
}

static void fp4_to_row(void *dst, const float *src, size_t n)
{
	lut_to_row(dst, src, n, lut_fp4, lut_fp4[7]);
}

/*
 * The scale follows the OCP specification (Microscaling Formats, version 1.0,
 * section 6.3): take the largest power of two that is not above the largest
 * magnitude, and divide it by 4, the largest power of two in E2M1. The largest
 * E2M1 number is 6, so magnitudes above 6 times the scale become 6 times the
 * scale.
 */
static void mxfp4_to_row(void *dst, const float *src, size_t n)
{
	uint8_t *p = dst;

	for (; n; n -= Q_BLOCK, src += Q_BLOCK, p += 17) {
		const float most = fminf(fabsf(most_of(src)), FLT_MAX);
		const int e = most > 0 ? ilogbf(most) - 2 + 127 : 0;

		*p = (uint8_t)(e > 0 ? e : 0);
		nearest_codes(p + 1, src, lut_fp4, ldexpf(1, *p - 128));
	}
}

/* Index of a type in infos[]. The types of GGUF come first, then NF4 and
 * FP4. */
#define INFO(type) \
	((type) < DTYPE_NF4 ? (type) : (type)-DTYPE_NF4 + DTYPE_MXFP4 + 1)

static const struct dtype_info infos[] = {
	[DTYPE_F32] = { "f32", 1, 4, f32_row, f32_to_row },
	[DTYPE_F16] = { "f16", 1, 2, f16_row, f16_to_row },
	[DTYPE_Q4_0] = { "q4_0", Q_BLOCK, 18, q4_0_row, q4_0_to_row },
	[DTYPE_Q4_1] = { "q4_1", Q_BLOCK, 20, q4_1_row, NULL },
	[DTYPE_Q5_0] = { "q5_0", Q_BLOCK, 22, q5_0_row, NULL },
	[DTYPE_Q5_1] = { "q5_1", Q_BLOCK, 24, q5_1_row, NULL },
	[DTYPE_Q8_0] = { "q8_0", Q_BLOCK, 34, q8_0_row, q8_0_to_row },
	[DTYPE_Q4_K] = { "q4_k", K_BLOCK, 144, q4_k_row, NULL },
	[DTYPE_Q5_K] = { "q5_k", K_BLOCK, 176, q5_k_row, NULL },
	[DTYPE_Q6_K] = { "q6_k", K_BLOCK, 210, q6_k_row, NULL },
	[DTYPE_IQ4_NL] = { "iq4_nl", Q_BLOCK, 18, iq4_nl_row, iq4_nl_to_row },
	[DTYPE_BF16] = { "bf16", 1, 2, bf16_row, bf16_to_row },
	[DTYPE_MXFP4] = { "mxfp4", Q_BLOCK, 17, mxfp4_row, mxfp4_to_row },
	[INFO(DTYPE_NF4)] = { "nf4", Q_BLOCK, 18, nf4_row, nf4_to_row },
	[INFO(DTYPE_FP4)] = { "fp4", Q_BLOCK, 18, fp4_row, fp4_to_row },
};

const struct dtype_info *dtype_info(uint32_t type)
{
	const uint32_t i = INFO(type);

	if ((type > DTYPE_MXFP4 && type < DTYPE_NF4) || i >= ARRAY_LEN(infos) ||
		!infos[i].name)
		return NULL;
	return &infos[i];
}

int dtype_parse(const char *name, enum dtype *out)
{
	for (uint32_t t = 0; t <= DTYPE_FP4; t++) {
		const struct dtype_info *info = dtype_info(t);

		if (!info || strcasecmp(info->name, name))
			continue;
		*out = (enum dtype)t;
		return 0;
	}
	return -EINVAL;
}

size_t dtype_row_bytes(uint32_t type, uint64_t n)
{
	const struct dtype_info *info = dtype_info(type);
	size_t bytes;

	if (!info || n % info->block)
		return 0;
	if (size_mul(&bytes, n / info->block, info->bytes))
		return 0;
	return bytes;
}

/*
 * The number of infinite values and NaNs in a word of two or four values. For
 * each value, the mask `exponent` has all exponent bits, and the mask `lowest`
 * has the lowest exponent bit. In an infinite value or NaN all exponent bits
 * are ones, so the addition of the lowest exponent bit carries into the sign
 * bit. The sign bit is cleared before the addition, so the carry does not reach
 * the next value.
 */
static size_t nonfinite_lanes(uint64_t word, uint64_t exponent, uint64_t lowest)
{
	word = ((word & exponent) + lowest) & (exponent + lowest);
	/* a nonzero word is rare; test for it first, because without a popcount
	 * instruction popcountll is a library call */
	return word ? (size_t)__builtin_popcountll(word) : 0;
}

static size_t nonfinite_values(
	const uint8_t *p, size_t bytes, uint64_t exponent, uint64_t lowest)
{
	uint64_t word, last = 0;
	size_t found = 0;

	for (; bytes >= sizeof(word);
		bytes -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		found += nonfinite_lanes(word, exponent, lowest);
	}
	if (bytes)
		memcpy(&last, p, bytes);
	return found + nonfinite_lanes(last, exponent, lowest);
}

/* The number of blocks in which one of two fp16 numbers, the scale at byte
 * `one` and the offset at byte `other`, is not finite. */
static size_t nonfinite_blocks(
	const uint8_t *p, size_t n, size_t bytes, size_t one, size_t other)
{
	const uint16_t exponent = 0x7c00;
	size_t found = 0;

	for (size_t i = 0; i < n; i++, p += bytes) {
		uint16_t a, b;

		memcpy(&a, p + one, sizeof(a));
		memcpy(&b, p + other, sizeof(b));
		found += ((a & exponent) == exponent) |
			((b & exponent) == exponent);
	}
	return found;
}

/* In MXFP4 a large scale makes only the products with large table entries
 * infinite, so the values of a block with a large scale are decoded and tested.
 */
static size_t nonfinite_mxfp4(const uint8_t *p, size_t n)
{
	float values[Q_BLOCK];
	size_t found = 0;

	for (size_t i = 0; i < n; i++, p += 17) {
		if (*p < 253)
			continue;
		mxfp4_row(values, p, Q_BLOCK);
		for (int j = 0; j < Q_BLOCK; j++)
			found += !isfinite(values[j]);
	}
	return found;
}

size_t dtype_not_finite(enum dtype type, const void *src, size_t n)
{
	const struct dtype_info *info = dtype_info(type);
	const size_t block = info->block, bytes = info->bytes;

	assert(n % block == 0);
	switch (type) {
	case DTYPE_F32:
		return nonfinite_values(
			src, n * bytes, 0x7f8000007f800000, 0x0080000000800000);
	case DTYPE_BF16:
		return nonfinite_values(
			src, n * bytes, 0x7f807f807f807f80, 0x0080008000800080);
	case DTYPE_F16:
		return nonfinite_values(
			src, n * bytes, 0x7c007c007c007c00, 0x0400040004000400);
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q5_K:
		return block * nonfinite_blocks(src, n / block, bytes, 0, 2);
	case DTYPE_Q6_K:
		return block *
			nonfinite_blocks(src, n / block, bytes, 208, 208);
	case DTYPE_MXFP4:
		return nonfinite_mxfp4(src, n / block);
	default:
		return block * nonfinite_blocks(src, n / block, bytes, 0, 0);
	}
}
