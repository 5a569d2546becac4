/* A reader of packed tiles that was written only from the description in
 * tensor/tile.h and uses no code of the tested functions. */
#ifndef TESTS_TENSOR_TILE_READER_H
#define TESTS_TENSOR_TILE_READER_H

#include "tensor/tile.h"
#include "tests/harness.h"

#include <math.h>
#include <stdint.h>

static inline double half_at(const uint8_t *p)
{
	const int bits = p[0] | p[1] << 8;
	const int exponent = bits >> 10 & 31, fraction = bits & 1023;
	const double mag = exponent ? ldexp(1024 + fraction, exponent - 25)
				    : ldexp(fraction, -24);

	return bits & 0x8000 ? -mag : mag;
}

/* The value of a code of a super-group, without the scale. */
static inline double super_value(enum dtype type, int code)
{
	static const double iq4_nl[16] = { -127, -104, -83, -65, -49, -35, -22,
		-10, 1, 13, 25, 38, 53, 69, 89, 113 };
	static const double nf4[16] = { -16384, -11408, -8600, -6472, -4660,
		-3028, -1492, 0, 1304, 2636, 4032, 5536, 7220, 9216, 11848,
		16384 }; /* times 2^14 */
	static const double fp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3,
		-4, -6, -8, -12 };

	return type == DTYPE_SUPER_IQ4_NL ? iq4_nl[code]
		: type == DTYPE_SUPER_NF4 ? nf4[code] / 16384
		: type == DTYPE_SUPER_FP4 ? fp4[code]
					  : code - 8;
}

/* The value of output n and input k of a tile, as tensor/tile.h describes each
 * format. */
static inline double stored(enum dtype type, const uint8_t *p, int n, int k)
{
	const int group = k / 2 * 2 + n / 16; /* 2 inputs by 16 outputs */
	const int j = n % 16 * 2 + k % 2;     /* index within the group */
	const int e = group % 8 * 32 + j, v = e / 64, i = e % 64;
	const uint8_t *super = p + group / 8 * (tile_info(type)->bytes / 4);

	switch (type) {
	case DTYPE_TILE_F16:
		return half_at(p + 2 * (k / 2 * 64 + 2 * n + k % 2));
	case DTYPE_TILE_Q4_0:
		return ((p[k / 2 * 32 + n] >> k % 2 * 4 & 15) - 8) *
			half_at(p + 512 + 2 * n);
	case DTYPE_TILE_Q8_0:
		return (int8_t)p[k / 4 * 128 + n * 4 + k % 4] *
			half_at(p + 1024 + 2 * n);
	case DTYPE_GROUP_Q4_0:
		p += 18 * group;
		return ((p[2 + j % 16] >> j / 16 * 4 & 15) - 8) * half_at(p);
	case DTYPE_GROUP_Q8_0:
		p += 34 * group;
		return (int8_t)p[2 + j] * half_at(p);
	case DTYPE_SUPER_Q4_0:
	case DTYPE_SUPER_IQ4_NL:
	case DTYPE_SUPER_NF4:
	case DTYPE_SUPER_FP4:
		return super_value(type,
			       super[16 + 2 * i + v % 2] >> v / 2 * 4 & 15) *
			half_at(super + e / 32 * 2);
	case DTYPE_SUPER_Q8_0:
		return (int8_t)super[16 + e] * half_at(super + e / 32 * 2);
	default:
		fail();
		return 0;
	}
}

/* Read row j of a packed matrix with rows of k values. */
static inline void row_of_tiles(enum dtype type, float *row,
	const uint8_t *packed, unsigned k, unsigned j)
{
	const size_t bytes = tile_info(type)->bytes;

	for (unsigned i = 0; i < k; i++)
		row[i] = (float)stored(type,
			packed + (j / 32 * (k / 32) + i / 32) * bytes,
			(int)j % 32, (int)i % 32);
}

#endif
