#include "tests/harness.h"

#include "base/checked.h"
#include "base/rng.h"
#include "tensor/dtype.h"
#include "tensor/f16.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype all_types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16,
	DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q4_K,
	DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_MXFP4, DTYPE_NF4,
	DTYPE_FP4 };

#define HALF_1    0x00, 0x3c /* fp16 1.0, little-endian */
#define HALF_0_5  0x00, 0x38
#define HALF_0_25 0x00, 0x34
#define HALF_1_5  0x00, 0x3e
#define HALF_M2   0x00, 0xc0 /* -2 */

static void check_row(
	enum dtype type, const uint8_t *block, const double *want, size_t n)
{
	float got[256];

	dtype_info(type)->to_f32(got, block, n);
	for (size_t i = 0; i < n; i++) {
		if ((double)got[i] != want[i])
			fail_msg("%s value %zu: %.9g, expected %.9g",
				dtype_info(type)->name, i, (double)got[i],
				want[i]);
	}
}

/* ---- the table of types ---- */

static void test_table(void **state)
{
	static const struct {
		enum dtype type;
		const char *name;
		unsigned block, bytes;
	} want[] = {
		{ DTYPE_F32, "f32", 1, 4 },
		{ DTYPE_F16, "f16", 1, 2 },
		{ DTYPE_BF16, "bf16", 1, 2 },
		{ DTYPE_Q8_0, "q8_0", 32, 34 },
		{ DTYPE_Q4_0, "q4_0", 32, 18 },
		{ DTYPE_Q4_1, "q4_1", 32, 20 },
		{ DTYPE_Q5_0, "q5_0", 32, 22 },
		{ DTYPE_Q5_1, "q5_1", 32, 24 },
		{ DTYPE_Q4_K, "q4_k", 256, 144 },
		{ DTYPE_Q5_K, "q5_k", 256, 176 },
		{ DTYPE_Q6_K, "q6_k", 256, 210 },
		{ DTYPE_IQ4_NL, "iq4_nl", 32, 18 },
		{ DTYPE_MXFP4, "mxfp4", 32, 17 },
		{ DTYPE_NF4, "nf4", 32, 18 },
		{ DTYPE_FP4, "fp4", 32, 18 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct dtype_info *info = dtype_info(want[i].type);
		enum dtype parsed;

		assert_non_null(info);
		assert_string_equal(info->name, want[i].name);
		assert_int_equal(info->block, want[i].block);
		assert_int_equal(info->bytes, want[i].bytes);
		assert_int_equal(dtype_parse(want[i].name, &parsed), 0);
		assert_int_equal(parsed, want[i].type);
	}
	for (uint32_t t = 0; t < 0x200; t++) {
		bool known = false;

		for (size_t i = 0; i < ARRAY_LEN(want); i++)
			known |= want[i].type == t;
		assert_int_equal(dtype_info(t) != NULL, known);
	}
	assert_null(dtype_info(UINT32_MAX));
}

static void test_parse(void **state)
{
	enum dtype t = DTYPE_F32;

	assert_int_equal(dtype_parse("Q4_K", &t), 0);
	assert_int_equal(t, DTYPE_Q4_K);
	assert_int_equal(dtype_parse("iq4_xs", &t), -EINVAL);
	assert_int_equal(dtype_parse("", &t), -EINVAL);
	assert_int_equal(t, DTYPE_Q4_K);
}

static void test_row_bytes(void **state)
{
	assert_int_equal(dtype_row_bytes(DTYPE_F32, 7), 28);
	assert_int_equal(dtype_row_bytes(DTYPE_Q4_0, 64), 36);
	assert_int_equal(dtype_row_bytes(DTYPE_Q6_K, 512), 420);
	assert_int_equal(dtype_row_bytes(DTYPE_Q4_0, 0), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_Q4_0, 33), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_Q4_K, 32), 0);
	assert_int_equal(dtype_row_bytes(4, 32), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_F32, UINT64_MAX / 2), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_Q8_0, UINT64_MAX - 31), 0);
}

/* ---- 16-bit floats ---- */

/* The value of an fp16 number by its definition: sign, exponent and fraction,
 * in double. */
static double half_value(uint16_t h)
{
	const int exponent = h >> 10 & 31, fraction = h & 1023;
	const double sign = h & 0x8000 ? -1 : 1;

	if (exponent == 31)
		return fraction ? NAN : sign * INFINITY;
	if (!exponent)
		return sign * ldexp(fraction, -24);
	return sign * ldexp(1024 + fraction, exponent - 25);
}

static void test_f16_all(void **state)
{
	for (uint32_t h = 0; h < 65536; h++) {
		const double want = half_value((uint16_t)h);
		const float got = f16_to_f32((uint16_t)h);

		if (isnan(want)) {
			if (!isnan(got))
				fail_msg("f16 %04x: %g, not NaN", h,
					(double)got);
			continue;
		}
		if (got != want || !signbit(got) != !signbit(want))
			fail_msg("f16 %04x: %.9g, expected %.9g", h,
				(double)got, want);
		if (f32_to_f16(got) != h)
			fail_msg("f16 %04x comes back as %04x", h,
				f32_to_f16(got));
	}
}

/* The fp16 number nearest to v, ties to even, found by a binary search among
 * all fp16 numbers. */
static uint16_t nearest_half(double v)
{
	uint16_t low = 0, high = 0x7c00;
	const double mag = fabs(v);

	while (high - low > 1) {
		const uint16_t mid = (uint16_t)((low + high) / 2);

		if (half_value(mid) <= mag)
			low = mid;
		else
			high = mid;
	}
	/* For rounding, infinity counts as 2^16, the value that would follow
	 * the largest fp16 number. */
	const double top = high == 0x7c00 ? 65536 : half_value(high);
	const double below = mag - half_value(low), above = top - mag;
	const uint16_t near = below < above ? low
		: below > above             ? high
		: low % 2                   ? high
					    : low;

	return (uint16_t)(near | (signbit(v) ? 0x8000 : 0));
}

static void check_half(float v)
{
	const uint16_t got = f32_to_f16(v), want = nearest_half(v);

	if (got != want)
		fail_msg("f32_to_f16(%.9g) = %04x, expected %04x", (double)v,
			got, want);
}

/* Round the middle between any two adjacent fp16 numbers, and the float32
 * numbers next to this middle. */
static void test_f16_rounding(void **state)
{
	for (uint16_t h = 0; h < 0x7c00; h++) {
		const double next =
			h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1));
		const float middle = (float)((half_value(h) + next) / 2);

		check_half(middle);
		check_half(-middle);
		check_half(nextafterf(middle, 0));
		check_half(nextafterf(middle, INFINITY));
	}
	check_half(1e30f);
	check_half(1e-30f);
	assert_int_equal(f32_to_f16(INFINITY), 0x7c00);
	assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
	assert_true(isnan(f16_to_f32(f32_to_f16(NAN))));
}

static void test_bf16(void **state)
{
	static const struct {
		uint32_t f32;
		uint16_t bf16;
	} want[] = {
		{ 0x3f800000, 0x3f80 }, /* 1 */
		{ 0x3f808000, 0x3f80 }, /* a tie: to even, down */
		{ 0x3f808001, 0x3f81 },
		{ 0x3f818000, 0x3f82 }, /* a tie: to even, up */
		{ 0x3f817fff, 0x3f81 }, { 0xbf818000, 0xbf82 },
		{ 0x00008001, 0x0001 }, /* subnormal */
		{ 0x7f7fffff, 0x7f80 }, /* rounds to infinity */
		{ 0x7f800000, 0x7f80 },
		{ 0x7f800001, 0x7fc0 }, /* a NaN stays a NaN */
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const uint16_t got = f32_to_bf16(f32_from_bits(want[i].f32));

		if (got != want[i].bf16)
			fail_msg("bf16 of %08x: %04x, expected %04x",
				want[i].f32, got, want[i].bf16);
	}
	for (uint32_t h = 0; h < 65536; h++)
		assert_int_equal(f32_bits(bf16_to_f32((uint16_t)h)), h << 16);
}

/* ---- blocks with values computed by hand ---- */

static void test_q8_0_block(void **state)
{
	uint8_t block[34] = { HALF_0_5 };
	double want[32];

	for (int j = 0; j < 32; j++) {
		block[2 + j] = (uint8_t)(j * 8 - 128);
		want[j] = 0.5 * (j * 8 - 128);
	}
	check_row(DTYPE_Q8_0, block, want, 32);
}

static void test_q4_blocks(void **state)
{
	uint8_t b0[18] = { HALF_0_25 }, b1[20] = { HALF_0_25, HALF_1_5 };
	double w0[32], w1[32];

	for (int j = 0; j < 16; j++) {
		/* byte j: the low nibble is j, the code of value j; the high
		 * nibble is 15 - j, the code of value j + 16 */
		b0[2 + j] = b1[4 + j] = (uint8_t)((15 - j) << 4 | j);
		w0[j] = 0.25 * (j - 8);
		w0[j + 16] = 0.25 * (15 - j - 8);
		w1[j] = 0.25 * j + 1.5;
		w1[j + 16] = 0.25 * (15 - j) + 1.5;
	}
	check_row(DTYPE_Q4_0, b0, w0, 32);
	check_row(DTYPE_Q4_1, b1, w1, 32);
}

static void test_iq4_nl_block(void **state)
{
	static const int values[16] = { -127, -104, -83, -65, -49, -35, -22,
		-10, 1, 13, 25, 38, 53, 69, 89, 113 };
	uint8_t block[18] = { HALF_0_25 };
	double want[32];

	for (int j = 0; j < 16; j++) {
		block[2 + j] = (uint8_t)((15 - j) << 4 | j);
		want[j] = 0.25 * values[j];
		want[j + 16] = 0.25 * values[15 - j];
	}
	check_row(DTYPE_IQ4_NL, block, want, 32);
}

/* The entries of NF4's table differ from the published quantiles by at most
 * half a unit in the last place of fp16. */
static void test_nf4_and_fp4_blocks(void **state)
{
	static const double nf4[16] = { -1, -0.6961928009986877,
		-0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
		-0.18477343022823334, -0.09105003625154495, 0,
		0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
		0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
		0.7229568362236023, 1 };
	static const double fp4[8] = { 0, 1, 2, 3, 4, 6, 8, 12 };
	uint8_t block[18] = { HALF_M2 };
	double want[2][32];

	for (int j = 0; j < 16; j++) {
		block[2 + j] = (uint8_t)((15 - j) << 4 | j);
		want[0][j] = -2 * half_value(nearest_half(nf4[j]));
		want[1][j] = -2 * fp4[j % 8] * (j < 8 ? 1 : -1);
		want[0][31 - j] = want[0][j];
		want[1][31 - j] = want[1][j];
	}
	check_row(DTYPE_NF4, block, want[0], 32);
	check_row(DTYPE_FP4, block, want[1], 32);
}

/* Tests all 256 scales 2^(e - 127). With the largest scales, values are beyond
 * the range of float32. */
static void test_mxfp4_block(void **state)
{
	static const double values[8] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6 };
	uint8_t block[17];
	double want[32];

	for (int e = 0; e < 256; e++) {
		block[0] = (uint8_t)e;
		for (int j = 0; j < 16; j++) {
			block[1 + j] = (uint8_t)((15 - j) << 4 | j);
			want[j] = (float)ldexp(values[j % 8], e - 127);
			want[j] *= j < 8 ? 1 : -1;
			want[31 - j] = want[j];
		}
		check_row(DTYPE_MXFP4, block, want, 32);
	}
}

static void test_q5_blocks(void **state)
{
	/* The fifth bit is set for the values 0, 3, 9, 16 and 31. */
	uint8_t b0[22] = { HALF_0_5, 0x09, 0x02, 0x01, 0x80 };
	uint8_t b1[24] = { HALF_0_5, HALF_M2, 0x09, 0x02, 0x01, 0x80 };
	double w0[32], w1[32];

	for (int j = 0; j < 32; j++) {
		const bool fifth =
			j == 0 || j == 3 || j == 9 || j == 16 || j == 31;
		const int q = (j < 16 ? j : 31 - j) + (fifth ? 16 : 0);

		w0[j] = 0.5 * (q - 16);
		w1[j] = 0.5 * q - 2;
		if (j < 16)
			b0[6 + j] = b1[8 + j] = (uint8_t)((15 - j) << 4 | j);
	}
	check_row(DTYPE_Q5_0, b0, w0, 32);
	check_row(DTYPE_Q5_1, b1, w1, 32);
}

/* The scales 1 5 9 13 35 39 43 47 and the minima 2 6 10 14 50 54 58 62,
 * unpacked and packed in 12 bytes. */
static const int k_scale[8] = { 1, 5, 9, 13, 35, 39, 43, 47 };
static const int k_min[8] = { 2, 6, 10, 14, 50, 54, 58, 62 };
static const uint8_t k_packed[12] = {
	/* low six bits: scale j; top two bits: the top two bits of scale j +
	 * 4 */
	0x81, 0x85, 0x89, 0x8d, /* 35, 39, 43 and 47 are 10xxxx in binary */
	/* low six bits: minimum j; top two bits: the top two bits of minimum j
	 * + 4, since 50, 54, 58 and 62 are 11xxxx */
	0xc2, 0xc6, 0xca, 0xce,
	/* low nibble: the low four bits of scale j + 4; high nibble: the low
	 * four bits of minimum j + 4 */
	0x23, 0x67, 0xab, 0xef
};

static void test_k4_k5_blocks(void **state)
{
	uint8_t b4[144] = { HALF_0_5, HALF_0_25 };
	uint8_t b5[176] = { HALF_0_5, HALF_0_25 };
	double w4[256], w5[256];

	memcpy(b4 + 4, k_packed, 12);
	memcpy(b5 + 4, k_packed, 12);
	for (int i = 0; i < 256; i++) {
		const int g = i / 32, j = i % 32, q = (i * 7 + g) % 16;
		const int high = (i * 5 + g) % 3 == 0;
		const int at = g / 2 * 32 + j, shift = g % 2 * 4;

		b4[16 + at] |= (uint8_t)(q << shift);
		b5[48 + at] |= (uint8_t)(q << shift);
		b5[16 + j] |= (uint8_t)(high << g);
		w4[i] = 0.5 * k_scale[g] * q - 0.25 * k_min[g];
		w5[i] = 0.5 * k_scale[g] * (q + 16 * high) - 0.25 * k_min[g];
	}
	check_row(DTYPE_Q4_K, b4, w4, 256);
	check_row(DTYPE_Q5_K, b5, w5, 256);
}

static void test_k6_block(void **state)
{
	uint8_t b[210] = { 0 };
	double want[256];

	b[208] = 0x00, b[209] = 0x34; /* 0.25 */
	for (int i = 0; i < 256; i++) {
		const int half = i / 128, r = i % 128, q = (i * 11 + 5) % 64;
		const int scale = i / 16 * 9 - 70;

		/* each half has 64 bytes of nibbles; quarter r / 32 of the half
		 * is in bytes 0-31 or 32-63, in the low or the high nibbles */
		b[half * 64 + r % 64] |= (uint8_t)((q & 15) << r / 64 * 4);
		b[128 + half * 32 + r % 32] |= (uint8_t)(q >> 4 << r / 32 * 2);
		b[192 + i / 16] = (uint8_t)scale;
		want[i] = 0.25 * scale * (q - 32);
	}
	check_row(DTYPE_Q6_K, b, want, 256);
}

/*
 * The hashes are FNV-1a over the float32 bits that ggml's own decoders (a build
 * of llama.cpp of 2026) give for four rows of 512 values of random bytes. NaN
 * counts as 7fc00000.
 */
static void test_blocks_of_ggml(void **state)
{
	static const struct {
		enum dtype type;
		uint64_t hash;
	} want[] = {
		{ DTYPE_Q8_0, 0x68a7d5d68d42b724u },
		{ DTYPE_Q4_0, 0x649791d1b2283563u },
		{ DTYPE_Q4_1, 0x9a4013e295c9ca8eu },
		{ DTYPE_Q5_0, 0xcc3784ae7dcf231fu },
		{ DTYPE_Q5_1, 0x06dab73a4032e6d8u },
		{ DTYPE_Q4_K, 0x01b01072414a2cb4u },
		{ DTYPE_Q5_K, 0x46f31b8440e321b9u },
		{ DTYPE_Q6_K, 0x8c09b9c6da0e5851u },
		{ DTYPE_IQ4_NL, 0x1ebc8eb0e2e428a1u },
		{ DTYPE_MXFP4, 0x68a0321eddb8e925u },
	};
	static uint8_t row[4096];
	static float out[2048];

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const size_t bytes = dtype_row_bytes(want[i].type, 2048);
		uint64_t hash = 0xcbf29ce484222325u;

		for (size_t j = 0; j < bytes; j += 16)
			rng_words(7, want[i].type, j, (uint32_t *)(row + j));
		dtype_info(want[i].type)->to_f32(out, row, 2048);
		for (size_t j = 0; j < 2048; j++) {
			const uint32_t u =
				isnan(out[j]) ? 0x7fc00000 : f32_bits(out[j]);

			for (int k = 0; k < 32; k += 8)
				hash = (hash ^ (u >> k & 255)) * 0x100000001b3u;
		}
		if (hash != want[i].hash)
			fail_msg("%s: hash %016" PRIx64
				 ", expected %016" PRIx64,
				dtype_info(want[i].type)->name, hash,
				want[i].hash);
	}
}

/* ---- writing ---- */

static void test_q4_0_rounding(void **state)
{
	float x[32] = { 0 };
	uint8_t block[18];

	/* The largest magnitude is +4, so d = -0.5. A code is x / d + 8.5,
	 * truncated. */
	x[0] = 4;      /* -8 + 8.5: 0 */
	x[1] = -3;     /* 6 + 8.5: 14 */
	x[2] = -3.75f; /* 7.5 + 8.5 = 16: limited to 15 */
	x[3] = 0.25f;  /* -0.5 + 8.5: 8 */
	x[4] = 0.26f;  /* -0.52 + 8.5: 7 */
	x[17] = -1;    /* 2 + 8.5: 10, high nibble of byte 1 */
	dtype_info(DTYPE_Q4_0)->from_f32(block, x, 32);
	assert_int_equal(block[0], 0x00);
	assert_int_equal(block[1], 0xb8); /* fp16 -0.5 */
	assert_int_equal(block[2], 0x80);
	assert_int_equal(block[3], 0xae);
	assert_int_equal(block[4], 0x8f);
	assert_int_equal(block[5], 0x88);
	assert_int_equal(block[6], 0x87);
	assert_int_equal(block[7], 0x88);
	/* If two magnitudes are equal, the first decides the sign. */
	x[1] = -4;
	dtype_info(DTYPE_Q4_0)->from_f32(block, x, 32);
	assert_int_equal(block[1], 0xb8);
}

static void test_q8_0_rounding(void **state)
{
	float x[32] = { 127, 0.5f, -0.5f, 1.5f, 2.4999f, -127, -1.5f };
	static const int8_t want[7] = { 127, 1, -1, 2, 2, -127, -2 };
	uint8_t block[34];

	dtype_info(DTYPE_Q8_0)->from_f32(block, x, 32);
	assert_int_equal(block[0], 0x00);
	assert_int_equal(block[1], 0x3c); /* 1 */
	for (int j = 0; j < 7; j++)
		assert_int_equal((int8_t)block[2 + j], want[j]);
}

static void test_iq4_nl_rounding(void **state)
{
	float x[32] = { -254, 226, 2, 2.9f, 14, 14.1f, -12, -57, 254 };
	/* The scale is 2, so a code stands for twice its table entry. 14 is as
	 * near to 2 as to 26, and -57 is as near to -70 as to -44; in such a
	 * tie the lower code is chosen. The value nearest to zero is 2. */
	static const uint8_t want[9] = { 0, 15, 8, 8, 8, 9, 7, 5, 15 };
	uint8_t block[18];

	x[17] = -20;
	dtype_info(DTYPE_IQ4_NL)->from_f32(block, x, 32);
	assert_int_equal(block[0], 0x00);
	assert_int_equal(block[1], 0x40); /* 2 */
	for (int j = 0; j < 9; j++)
		assert_int_equal(block[2 + j] & 15, want[j]);
	assert_int_equal(block[3] >> 4, 7);
	assert_int_equal(block[4] >> 4, 8);
	/* a positive largest magnitude: the scale is negative */
	x[0] = 508;
	dtype_info(DTYPE_IQ4_NL)->from_f32(block, x, 32);
	assert_int_equal(block[1], 0xc4); /* -4 */
	assert_int_equal(block[2] & 15, 0);
}

/* The value with the largest magnitude gets the code of the table's largest
 * entry of the same sign. The scale is always positive. */
static void test_nf4_and_fp4_rounding(void **state)
{
	float x[32] = { -6, 6, 0, 2.5f, 2.6f, -0.2f };
	static const uint8_t nf4[6] = { 0, 15, 7, 12, 12, 7 };
	static const uint8_t fp4[6] = { 15, 7, 0, 4, 5, 0 };
	uint8_t block[18];

	for (int sign = 1; sign > -2; sign -= 2) {
		x[0] *= (float)sign;
		x[1] = -x[0];
		dtype_info(DTYPE_NF4)->from_f32(block, x, 32);
		assert_int_equal(block[1], 0x46); /* 6 */
		for (int j = 2; j < 6; j++)
			assert_int_equal(block[2 + j] & 15, nf4[j]);
		assert_int_equal(block[2] & 15, nf4[sign < 0]);
		assert_int_equal(block[3] & 15, nf4[sign > 0]);
		dtype_info(DTYPE_FP4)->from_f32(block, x, 32);
		assert_int_equal(block[1], 0x38); /* 0.5 */
		for (int j = 2; j < 6; j++)
			assert_int_equal(block[2 + j] & 15, fp4[j]);
		assert_int_equal(block[2] & 15, fp4[sign < 0]);
		assert_int_equal(block[3] & 15, fp4[sign > 0]);
	}
}

static void test_mxfp4_rounding(void **state)
{
	float x[32] = { 7.9f, 6, 5, 4.9f, -2.5f, 0.25f, 0.26f, -0.25f, -0.74f,
		-7.9f };
	/* the scale is 1, because 4, the largest power of two up to 7.9, is a
	 * value of MXFP4's table */
	static const uint8_t want[10] = { 7, 7, 6, 6, 12, 0, 1, 0, 9, 15 };
	uint8_t block[17];

	dtype_info(DTYPE_MXFP4)->from_f32(block, x, 32);
	assert_int_equal(block[0], 127);
	for (int j = 0; j < 10; j++)
		assert_int_equal(block[1 + j] & 15, want[j]);
	x[31] = 8;
	dtype_info(DTYPE_MXFP4)->from_f32(block, x, 32);
	assert_int_equal(block[0], 128);
	assert_int_equal(block[16] >> 4, 6);
	x[31] = FLT_MAX;
	dtype_info(DTYPE_MXFP4)->from_f32(block, x, 32);
	assert_int_equal(block[0], 252);
	x[31] = INFINITY;
	dtype_info(DTYPE_MXFP4)->from_f32(block, x, 32);
	assert_int_equal(block[0], 252);
}

/* No input may cause an undefined conversion, and zeros must stay zeros. */
static void test_odd_values(void **state)
{
	static const float odd[] = { 0, -0.0f, NAN, INFINITY, -INFINITY, 1e38f,
		-1e38f, 1e-45f, 1e-40f };
	uint8_t block[128];
	float x[32], y[32];

	for (size_t t = 0; t < ARRAY_LEN(all_types); t++) {
		const struct dtype_info *info = dtype_info(all_types[t]);

		if (!info->from_f32)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
			for (int j = 0; j < 32; j++)
				x[j] = j % 3 ? 0.25f * (float)j : odd[i];
			info->from_f32(block, x, 32);
		}
		memset(x, 0, sizeof(x));
		info->from_f32(block, x, 32);
		info->to_f32(y, block, 32);
		/* the result may be -0, as in ggml */
		for (int j = 0; j < 32; j++)
			assert_true(y[j] == 0);
	}
}

/* A row that is encoded, decoded and encoded again decodes to nearly the same
 * values. For types without blocks, both encodings have the same bytes. */
static void test_round_trip(void **state)
{
	const uint64_t seed = harness_seed();
	float x[512], y[512], z[512];
	uint8_t a[2048], b[2048];

	for (int i = 0; i < 512; i++)
		x[i] = (float)(rng_uniform(seed, 1, (uint64_t)i) - 0.5);
	for (size_t t = 0; t < ARRAY_LEN(all_types); t++) {
		const struct dtype_info *info = dtype_info(all_types[t]);

		if (!info->from_f32)
			continue;
		info->from_f32(a, x, 512);
		info->to_f32(y, a, 512);
		info->from_f32(b, y, 512);
		info->to_f32(z, b, 512);
		for (int i = 0; i < 512; i++)
			assert_close(
				(double)z[i], (double)y[i], 1e-3, info->name);
		if (info->block == 1)
			assert_memory_equal(a, b, 512 * info->bytes);
	}
}

static double gauss(uint64_t seed, uint64_t i)
{
	const double u = rng_uniform(seed, 2, 2 * i);
	const double v = rng_uniform(seed, 2, 2 * i + 1);

	return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

/* The relative error: the square root of the quotient of the sum of squared
 * errors and the sum of squared values. */
static double relative_error(enum dtype type, const float *x, size_t n)
{
	const struct dtype_info *info = dtype_info(type);
	void *row = malloc(dtype_row_bytes(type, n));
	float *y = malloc(n * sizeof(*y));
	double error = 0, power = 0;

	info->from_f32(row, x, n);
	info->to_f32(y, row, n);
	for (size_t i = 0; i < n; i++) {
		error += pow((double)x[i] - y[i], 2);
		power += pow(x[i], 2);
	}
	free(row);
	free(y);
	return sqrt(error / power);
}

/* The errors equal the known errors of these formats for independent Gaussian
 * weights. */
static void test_gaussian_error(void **state)
{
	const uint64_t seed = harness_seed();
	const size_t n = 1 << 17;
	float *x = malloc(n * sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = (float)gauss(seed, i);
	assert_close(relative_error(DTYPE_Q4_0, x, n), 0.086, 0.00086, "q4_0");
	assert_close(
		relative_error(DTYPE_IQ4_NL, x, n), 0.080, 0.0008, "iq4_nl");
	assert_close(relative_error(DTYPE_MXFP4, x, n), 0.115, 0.0012, "mxfp4");
	assert_close(relative_error(DTYPE_NF4, x, n), 0.087, 0.0009, "nf4");
	assert_close(relative_error(DTYPE_FP4, x, n), 0.101, 0.001, "fp4");
	assert_close(relative_error(DTYPE_Q8_0, x, n), 0.0054, 0.0001, "q8_0");
	/* If numbers have p significant bits, the rounding error is uniform in
	 * the last place, so the relative error is 2^-p / sqrt(12) and a little
	 * more. */
	assert_close(relative_error(DTYPE_F16, x, n), 2.0e-4, 0.2e-4, "f16");
	assert_close(relative_error(DTYPE_BF16, x, n), 1.6e-3, 0.2e-3, "bf16");
	assert_true(relative_error(DTYPE_F32, x, n) == 0);
	free(x);
}

/* For random bytes, dtype_not_finite equals the count of decoded values that
 * are not finite. */
static void test_not_finite(void **state)
{
	const uint64_t seed = harness_seed();
	uint8_t bytes[4 * 210 * 4];
	float x[1024];
	size_t counted = 0;

	for (unsigned t = 0; t <= DTYPE_FP4; t++) {
		const struct dtype_info *info = dtype_info(t);

		for (unsigned trial = 0; info && trial < 400; trial++) {
			const size_t n = (4 - trial % 2) * (size_t)info->block;
			size_t odd = 0, got;

			for (uint32_t i = 0; i < sizeof(bytes); i += 16)
				rng_words(seed, t, trial * 1000 + i,
					(uint32_t *)(void *)(bytes + i));
			/* In a quarter of the trials, make all fp16 numbers at
			 * even offsets infinite or NaN. */
			for (unsigned i = 1;
				trial % 4 == 0 && i < sizeof(bytes); i += 2)
				bytes[i] |= 0x7c;
			info->to_f32(x, bytes, n);
			for (size_t i = 0; i < n; i++)
				odd += !isfinite(x[i]);
			got = dtype_not_finite(t, bytes, n);
			if (got != odd)
				fail_msg("%zu of %zu values of %s, not %zu "
					 "(seed %" PRIu64 ", trial %u)",
					got, n, info->name, odd, seed, trial);
			counted += odd;
		}
	}
	assert_true(counted > 1000);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_table),
	cmocka_unit_test(test_parse),
	cmocka_unit_test(test_row_bytes),
	cmocka_unit_test(test_f16_all),
	cmocka_unit_test(test_f16_rounding),
	cmocka_unit_test(test_bf16),
	cmocka_unit_test(test_q8_0_block),
	cmocka_unit_test(test_q4_blocks),
	cmocka_unit_test(test_iq4_nl_block),
	cmocka_unit_test(test_mxfp4_block),
	cmocka_unit_test(test_nf4_and_fp4_blocks),
	cmocka_unit_test(test_q5_blocks),
	cmocka_unit_test(test_k4_k5_blocks),
	cmocka_unit_test(test_k6_block),
	cmocka_unit_test(test_blocks_of_ggml),
	cmocka_unit_test(test_q4_0_rounding),
	cmocka_unit_test(test_q8_0_rounding),
	cmocka_unit_test(test_iq4_nl_rounding),
	cmocka_unit_test(test_mxfp4_rounding),
	cmocka_unit_test(test_nf4_and_fp4_rounding),
	cmocka_unit_test(test_odd_values),
	cmocka_unit_test(test_not_finite),
	cmocka_unit_test(test_round_trip),
	cmocka_unit_test(test_gaussian_error),
};

TEST_FILE(tests)
