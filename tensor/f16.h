/*
 * 16-bit floats. The conversion to float32 is exact, and the conversion from
 * float32 rounds to nearest even. Both conversions are written in integer
 * arithmetic, so that they give the same bits with every compiler and
 * instruction set.
 */
#ifndef TENSOR_F16_H
#define TENSOR_F16_H

#include <stdint.h>
#include <string.h>

#define F16_MAX 65504.0f

static inline float f32_from_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline uint32_t f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t mag = h & 0x7fff;

	if (mag >= 0x7c00) /* infinity, NaN */
		return f32_from_bits(sign | 0x7f800000 | (mag & 0x3ff) << 13);
	/* Shift the bits into place, then scale by 2^112 to correct the
	 * exponent. The result is exact, also for subnormals. */
	return f32_from_bits(
		sign | f32_bits(f32_from_bits(mag << 13) * 0x1p112f));
}

/* Round to nearest even. A value beyond the range of fp16 becomes infinity. */
static inline uint16_t f32_to_f16(float f)
{
	uint32_t u = f32_bits(f);
	uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
	uint32_t mag = u & 0x7fffffff;

	if (mag > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
	/* values from here on round to 2^16 or more, which is infinity in fp16
	 */
	if (mag >= 0x477ff000)
		return sign | 0x7c00;
	/* below 2^-14, the addition of 0.5 rounds to a multiple of 2^-24 */
	if (mag < 0x38800000)
		return (uint16_t)(sign +
			(f32_bits(f32_from_bits(mag) + 0.5f) - 0x3f000000));
	mag += 0xfff + (mag >> 13 & 1);
	return (uint16_t)(sign | (mag - 0x38000000) >> 13);
}

static inline float bf16_to_f32(uint16_t h)
{
	return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t f32_to_bf16(float f)
{
	uint32_t u = f32_bits(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#endif
