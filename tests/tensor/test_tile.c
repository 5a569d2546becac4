#include "tests/tensor/tile_cases.h"

#include "base/checked.h"
#include "tensor/f16.h"
#include "tensor/tile.h"

#include <math.h>
#include <string.h>

static const enum dtype tiled[] = { DTYPE_TILE_F16, DTYPE_TILE_Q4_0,
	DTYPE_TILE_Q8_0, DTYPE_GROUP_Q4_0, DTYPE_GROUP_Q8_0, DTYPE_SUPER_Q4_0,
	DTYPE_SUPER_Q8_0, DTYPE_SUPER_IQ4_NL, DTYPE_SUPER_NF4,
	DTYPE_SUPER_FP4 };

/*
 * plain_type returns the GGUF type whose blocks are quantized like the groups
 * of a tiled format; by_output returns whether the values of a group belong to
 * one output.
 */
static enum dtype plain_type(enum dtype type)
{
	if (type == DTYPE_TILE_F16)
		return DTYPE_F16;
	return type == DTYPE_SUPER_IQ4_NL    ? DTYPE_IQ4_NL
		: type == DTYPE_SUPER_NF4    ? DTYPE_NF4
		: type == DTYPE_SUPER_FP4    ? DTYPE_FP4
		: tile_info(type)->bits == 4 ? DTYPE_Q4_0
					     : DTYPE_Q8_0;
}

static bool by_output(enum dtype type)
{
	return type <= DTYPE_TILE_Q8_0;
}

static void check_value(
	float got, float want, enum dtype type, unsigned n, unsigned k)
{
	if (f32_bits(got) != f32_bits(want))
		fail_msg("%s (%u, %u): %.9g, expected %.9g",
			tile_info(type)->name, n, k, (double)got, (double)want);
}

/* ---- order and sizes ---- */

static void test_index(void **state)
{
	bool seen[1024] = { false };
	/* n and k of the first element of each group */
	int group_n[32], group_k[32];

	memset(group_n, 0xff, sizeof(group_n));
	for (unsigned k = 0; k < 32; k++) {
		for (unsigned n = 0; n < 32; n++) {
			const unsigned i = tile_index(k, n), g = i / 32;

			assert_true(i < 1024 && !seen[i]);
			seen[i] = true;
			if (group_n[g] < 0) {
				group_n[g] = (int)n / 16 * 16;
				group_k[g] = (int)k / 2 * 2;
			}
			assert_int_equal(n / 16 * 16, group_n[g]);
			assert_int_equal(k / 2 * 2, group_k[g]);
		}
	}
	/* The order is: two adjacent k, then the next output. */
	assert_int_equal(tile_index(0, 0), 0);
	assert_int_equal(tile_index(1, 0), 1);
	assert_int_equal(tile_index(0, 1), 2);
	assert_int_equal(tile_index(1, 31), 63);
	assert_int_equal(tile_index(2, 0), 64);
	assert_int_equal(tile_index(31, 30), 1021);
}

static void test_info(void **state)
{
	static const struct {
		enum dtype type;
		const char *name;
		unsigned bytes, bits;
	} want[] = {
		{ DTYPE_TILE_F16, "tile-f16", 2048, 16 },
		{ DTYPE_TILE_Q4_0, "tile-q4_0", 576, 4 },
		{ DTYPE_TILE_Q8_0, "tile-q8_0", 1088, 8 },
		{ DTYPE_GROUP_Q4_0, "group-q4_0", 576, 4 },
		{ DTYPE_GROUP_Q8_0, "group-q8_0", 1088, 8 },
		{ DTYPE_SUPER_Q4_0, "super-q4_0", 576, 4 },
		{ DTYPE_SUPER_Q8_0, "super-q8_0", 1088, 8 },
		{ DTYPE_SUPER_IQ4_NL, "super-iq4_nl", 576, 4 },
		{ DTYPE_SUPER_NF4, "super-nf4", 576, 4 },
		{ DTYPE_SUPER_FP4, "super-fp4", 576, 4 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct tile_info *info = tile_info(want[i].type);

		assert_non_null(info);
		assert_string_equal(info->name, want[i].name);
		assert_int_equal(info->bytes, want[i].bytes);
		assert_int_equal(info->bits, want[i].bits);
		assert_int_equal(info->block, plain_type(want[i].type));
		assert_int_equal(info->by_output, by_output(want[i].type));
	}
	for (uint32_t t = 0; t < 0x200; t++)
		assert_int_equal(tile_info(t) != NULL,
			t >= DTYPE_TILE_F16 && t <= DTYPE_SUPER_FP4);
	assert_null(tile_info(UINT32_MAX));
}

static void test_sizes(void **state)
{
	assert_int_equal(tile_strip_bytes(DTYPE_TILE_Q4_0, 1536), 48 * 576);
	assert_int_equal(tile_strip_bytes(DTYPE_TILE_F16, 32), 2048);
	assert_int_equal(tile_bytes(DTYPE_SUPER_Q8_0, 1, 64), 2 * 1088);
	assert_int_equal(tile_bytes(DTYPE_SUPER_Q8_0, 32, 64), 2 * 1088);
	assert_int_equal(tile_bytes(DTYPE_SUPER_Q8_0, 33, 64), 4 * 1088);
	/* a tiled matrix is as large as the blocks of its GGUF type */
	assert_int_equal(tile_bytes(DTYPE_TILE_Q4_0, 8960, 1536),
		8960 * dtype_row_bytes(DTYPE_Q4_0, 1536));
}

static void test_refused_sizes(void **state)
{
	const uint64_t far = UINT64_MAX / 32 * 32;

	for (size_t i = 0; i < ARRAY_LEN(tiled); i++) {
		for (uint64_t k = 0; k <= 64; k++) {
			const bool whole = k && k % 32 == 0;

			assert_int_equal(
				tile_strip_bytes(tiled[i], k) != 0, whole);
			assert_int_equal(
				tile_bytes(tiled[i], 40, k) != 0, whole);
		}
		assert_int_equal(tile_strip_bytes(tiled[i], far), 0);
		assert_int_equal(tile_bytes(tiled[i], far, 32), 0);
		assert_int_equal(tile_bytes(tiled[i], UINT64_MAX, 32), 0);
		assert_int_equal(
			tile_bytes(tiled[i], 1ull << 33, 1ull << 33), 0);
		assert_int_equal(tile_bytes(tiled[i], 1, far), 0);
		assert_int_equal(tile_bytes(tiled[i], 0, 32), 0);
	}
	for (uint32_t t = 0; t < DTYPE_TILE_F16; t++) {
		assert_int_equal(tile_strip_bytes(t, 256), 0);
		assert_int_equal(tile_bytes(t, 32, 256), 0);
	}
	assert_int_equal(tile_bytes(DTYPE_SUPER_FP4 + 1, 32, 256), 0);
}

static void test_is_exact(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(tiled); i++) {
		for (uint32_t from = 0; from < 0x200; from++) {
			const enum dtype to = tiled[i];
			const bool want =
				(to == DTYPE_TILE_F16 && from == DTYPE_F16) ||
				(to == DTYPE_TILE_Q4_0 && from == DTYPE_Q4_0) ||
				(to == DTYPE_TILE_Q8_0 && from == DTYPE_Q8_0);

			assert_int_equal(
				tile_is_exact(to, (enum dtype)from), want);
		}
	}
	assert_false(tile_is_exact(DTYPE_Q4_0, DTYPE_Q4_0));
}

/* ---- repacking without loss ---- */

/* Scales that an encoder would not choose or would change. */
static const uint16_t odd_scales[] = { 0x0000, 0x8000, 0x0001, 0x8001, 0x03ff,
	0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff };

/* Make n rows of random codes or, for F16, of random finite numbers. */
static uint8_t *random_rows(enum dtype type, unsigned n, unsigned k)
{
	const struct dtype_info *info = dtype_info(type);
	const size_t row = dtype_row_bytes(type, k);
	uint8_t *p = random_bytes(n * 4096 + k + type, n * row);
	const size_t blocks = n * row / info->bytes;

	for (size_t i = 0; i < blocks; i++) {
		uint8_t *scale = p + i * info->bytes;

		if (type != DTYPE_F16)
			memcpy(scale, &odd_scales[i * 7 % 10], 2);
		else if ((scale[1] & 0x7c) == 0x7c)
			scale[1] ^= 0x40;
	}
	return p;
}

static void check_rows(enum dtype to, const uint8_t *packed, enum dtype from,
	const uint8_t *rows, unsigned n, unsigned k)
{
	const size_t tile = tile_info(to)->bytes;
	float *want = malloc(k * sizeof(*want));

	for (unsigned j = 0; j < n; j++) {
		dtype_info(from)->to_f32(
			want, rows + j * dtype_row_bytes(from, k), k);
		for (unsigned i = 0; i < k; i++) {
			const uint8_t *p =
				packed + (j / 32 * (k / 32) + i / 32) * tile;
			const double value =
				stored(to, p, (int)j % 32, (int)i % 32);

			check_value((float)value, want[i], to, j, i);
		}
	}
	free(want);
}

/* Check that the padding outputs of a short strip have codes and scales of
 * 0. */
static void check_filling(
	enum dtype to, const uint8_t *packed, unsigned n, unsigned k)
{
	static const uint8_t none[4];
	const unsigned bytes = tile_info(to)->bytes;
	const unsigned tiles = k / 32, strips = (n + 31) / 32;

	for (unsigned t = 0; t < tiles; t++) {
		const uint8_t *p = packed + ((strips - 1) * tiles + t) * bytes;

		for (unsigned j = n - (strips - 1) * 32; j < 32; j++) {
			if (to != DTYPE_TILE_F16)
				assert_memory_equal(
					p + bytes - 64 + 2 * j, none, 2);
			for (unsigned i = 0; i < 16; i++) {
				if (to == DTYPE_TILE_Q4_0)
					assert_int_equal(p[i * 32 + j], 0x88);
				else if (to == DTYPE_TILE_F16 || i < 8)
					assert_memory_equal(
						p + i * 128 + 4 * j, none, 4);
			}
		}
	}
}

static void check_exact(enum dtype to, enum dtype from, unsigned n, unsigned k)
{
	const size_t size = tile_bytes(to, n, k);
	const size_t strip = tile_strip_bytes(to, k);
	const unsigned strips = (n + 31) / 32;
	uint8_t *rows = random_rows(from, n, k);
	uint8_t *whole = malloc(size), *parts = malloc(size);

	memset(whole, 0xa5, size);
	memset(parts, 0x5a, size);
	tile_pack(to, whole, from, rows, n, k);
	check_rows(to, whole, from, rows, n, k);
	check_filling(to, whole, n, k);

	for (unsigned s = strips; s-- > 0;)
		tile_pack(to, parts + s * strip, from,
			rows + s * 32 * dtype_row_bytes(from, k),
			n - s * 32 < 32 ? n - s * 32 : 32, k);
	assert_memory_equal(whole, parts, size);
	free(rows);
	free(whole);
	free(parts);
}

static void test_exact(void **state)
{
	static const unsigned ns[] = { 1, 7, 8, 31, 32, 33, 100 };
	static const unsigned ks[] = { 32, 64, 1536 };

	for (size_t i = 0; i < ARRAY_LEN(ns); i++) {
		for (size_t j = 0; j < ARRAY_LEN(ks); j++) {
			check_exact(DTYPE_TILE_Q4_0, DTYPE_Q4_0, ns[i], ks[j]);
			check_exact(DTYPE_TILE_Q8_0, DTYPE_Q8_0, ns[i], ks[j]);
			check_exact(DTYPE_TILE_F16, DTYPE_F16, ns[i], ks[j]);
		}
	}
}

/* Packing fp16 weights changes no bit, also of infinities and of NaNs with
 * payloads. Source and destination are at unaligned addresses. */
static void test_exact_bits(void **state)
{
	const unsigned n = 2048 / 32 * 32, k = 32;
	uint8_t *rows = malloc(n * k * 2 + 1);
	uint8_t *packed = malloc(n * k * 2 + 1);

	for (unsigned i = 0; i < n * k; i++) {
		rows[1 + 2 * i] = (uint8_t)i;
		rows[2 + 2 * i] = (uint8_t)(i >> 8);
	}
	tile_pack(DTYPE_TILE_F16, packed + 1, DTYPE_F16, rows + 1, n, k);
	for (unsigned j = 0; j < n; j++) {
		for (unsigned i = 0; i < k; i++) {
			const unsigned at =
				j / 32 * 1024 + i / 2 * 64 + j % 32 * 2 + i % 2;

			assert_memory_equal(packed + 1 + 2 * at,
				rows + 1 + 2 * (j * k + i), 2);
		}
	}
	free(rows);
	free(packed);
}

/*
 * The codes of a Q4_0 block may differ from the codes that quantizing its
 * values gives. Here all codes are 9, which means 1; quantizing 1 would give
 * the code 0.
 */
static void test_exact_is_not_requantized(void **state)
{
	uint8_t rows[32 * 18], tile[576];

	memset(rows, 0x99, sizeof(rows));
	for (int n = 0; n < 32; n++) {
		rows[18 * n] = 0x00;
		rows[18 * n + 1] = 0x3c;
	}
	tile_pack(DTYPE_TILE_Q4_0, tile, DTYPE_Q4_0, rows, 32, 32);
	for (int i = 0; i < 512; i++)
		assert_int_equal(tile[i], 0x99);
	for (int n = 0; n < 32; n++)
		assert_int_equal(tile[512 + 2 * n + 1], 0x3c);
}

/* ---- bytes computed by hand ---- */

/* The code of output n and input k is 3 n + k, modulo 16. */
static void test_q4_0_tile(void **state)
{
	static const uint8_t first[] = { 0x10, 0x43, 0x76, 0xa9, 0xdc, 0x0f,
		0x32, 0x65, 0x98, 0xcb, 0xfe, 0x21, 0x54, 0x87, 0xba, 0xed };
	static const uint8_t last[] = { 0xfe, 0x21, 0x54, 0x87, 0xba, 0xed,
		0x10, 0x43, 0x76, 0xa9, 0xdc, 0x0f, 0x32, 0x65, 0x98, 0xcb };
	uint8_t rows[32][18], tile[576];

	for (int n = 0; n < 32; n++) {
		rows[n][0] = (uint8_t)n;
		rows[n][1] = 0x3c;
		for (int j = 0; j < 16; j++)
			rows[n][2 + j] = (uint8_t)((3 * n + j) % 16 * 0x11);
	}
	rows[5][2] = 0xef;   /* k = 0: 15; k = 16: 14 instead of 15 */
	rows[31][17] = 0x0c; /* k = 15: 12; k = 31: 0 instead of 12 */
	tile_pack(DTYPE_TILE_Q4_0, tile, DTYPE_Q4_0, rows, 32, 32);
	assert_memory_equal(tile, first, 16);
	assert_memory_equal(tile + 16, first, 16);
	/* k = 16 and 17: as in `first` except for output 5 */
	assert_memory_equal(tile + 256, first, 5);
	assert_int_equal(tile[256 + 5], 0x0e);
	assert_memory_equal(tile + 256 + 6, first + 6, 10);
	/* k = 14 and 15; then k = 30 and 31, which are the same except for
	 * output 31 */
	assert_memory_equal(tile + 7 * 32 + 16, last, 16);
	assert_memory_equal(tile + 15 * 32, last, 16);
	assert_memory_equal(tile + 15 * 32 + 16, last, 15);
	assert_int_equal(tile[511], 0x0b);
	for (int n = 0; n < 32; n++) {
		assert_int_equal(tile[512 + 2 * n], n);
		assert_int_equal(tile[512 + 2 * n + 1], 0x3c);
	}
}

/*
 * Element e of super-group 2 (k 16 to 23) has the code 5 e + e / 64, modulo 16,
 * and group g has the scale 2^(g - 4). Every group has a code 0, which is -8
 * times the scale; from these values the encoder finds the same scale and
 * codes.
 */
static void test_super_q4_0(void **state)
{
	static const uint8_t scales[16] = { 0x00, 0x2c, 0x00, 0x30, 0x00, 0x34,
		0x00, 0x38, 0x00, 0x3c, 0x00, 0x40, 0x00, 0x44, 0x00, 0x48 };
	/* for i = 0, 1, ...: byte 2 i has element i in its low nibble and
	 * element i + 128 in its high nibble; byte 2 i + 1 has elements i + 64
	 * and i + 192. With c = 5 i, the codes of these four elements are c, c
	 * + 2, c + 1 and c + 3 */
	static const uint8_t first[32] = { 0x20, 0x31, 0x75, 0x86, 0xca, 0xdb,
		0x1f, 0x20, 0x64, 0x75, 0xb9, 0xca, 0x0e, 0x1f, 0x53, 0x64,
		0xa8, 0xb9, 0xfd, 0x0e, 0x42, 0x53, 0x97, 0xa8, 0xec, 0xfd,
		0x31, 0x42, 0x86, 0x97, 0xdb, 0xec };
	float values[1024] = { 0 };
	uint8_t tile[576];

	for (int e = 0; e < 256; e++) {
		const int n = e % 64 / 2, k = 16 + e / 64 * 2 + e % 2;
		const int code = (5 * e + e / 64) % 16;

		values[n * 32 + k] = (float)ldexp(code - 8, e / 32 - 4);
	}
	tile_encode(DTYPE_SUPER_Q4_0, tile, values);
	assert_memory_equal(tile + 288, scales, 16);
	for (int i = 0; i < 4; i++) /* codes repeat after 16 elements */
		assert_memory_equal(tile + 304 + 32 * i, first, 32);
	/* all other super-groups have code 8 */
	for (int i = 0; i < 128; i++)
		assert_int_equal(tile[16 + i] & tile[448 + i], 0x88);
}

/* ---- encoding ---- */

/* The index of value j of group g in a tile [32 n][32 k]. */
static unsigned member(enum dtype type, unsigned g, unsigned j)
{
	if (by_output(type))
		return g * 32 + j;
	return (g % 2 * 16 + j / 2) * 32 + g / 2 * 2 + j % 2;
}

/* Check that each group is encoded as dtype.h quantizes its 32 values, and that
 * tile_decode and the reader of this test read back the same values. */
static void check_encoded(enum dtype type, const float *values)
{
	const struct dtype_info *plain = dtype_info(plain_type(type));
	uint8_t tile[2048], block[64];
	float group[32], want[32], got[1024];

	memset(tile, 0xa5, sizeof(tile));
	tile_encode(type, tile, values);
	tile_decode(type, got, tile);
	for (unsigned g = 0; g < 32; g++) {
		for (unsigned j = 0; j < 32; j++)
			group[j] = values[member(type, g, j)];
		plain->from_f32(block, group, 32);
		plain->to_f32(want, block, 32);
		for (unsigned j = 0; j < 32; j++) {
			const unsigned at = member(type, g, j);
			const unsigned n = at / 32, k = at % 32;
			const double value = stored(type, tile, (int)n, (int)k);

			check_value((float)value, want[j], type, n, k);
			check_value(got[at], want[j], type, n, k);
		}
	}
	for (size_t i = tile_info(type)->bytes; i < sizeof(tile); i++)
		assert_int_equal(tile[i], 0xa5);
}

static void test_encode(void **state)
{
	float *x = gaussians(1, 1024);

	for (size_t t = 0; t < ARRAY_LEN(tiled); t++)
		check_encoded(tiled[t], x);
	for (int i = 0; i < 1024; i++) /* scales from subnormal to large */
		x[i] *= (float)ldexp(1, i / 32 - 20);
	for (size_t t = 0; t < ARRAY_LEN(tiled); t++)
		check_encoded(tiled[t], x);
	for (int i = 0; i < 1024; i++)
		x[i] = i % 3 ? 0 : -0.0f;
	for (size_t t = 0; t < ARRAY_LEN(tiled); t++)
		check_encoded(tiled[t], x);
	free(x);
}

/* Coalescing groups to super-groups moves their bytes but does not change
 * values. */
static void test_super_is_group(void **state)
{
	static const enum dtype pairs[][2] = {
		{ DTYPE_GROUP_Q4_0, DTYPE_SUPER_Q4_0 },
		{ DTYPE_GROUP_Q8_0, DTYPE_SUPER_Q8_0 },
	};
	float *x = gaussians(2, 1024);
	uint8_t tile[1088];
	float a[1024], b[1024];

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		tile_encode(pairs[i][0], tile, x);
		tile_decode(pairs[i][0], a, tile);
		tile_encode(pairs[i][1], tile, x);
		tile_decode(pairs[i][1], b, tile);
		assert_memory_equal(a, b, sizeof(a));
		assert_memory_not_equal(a, x, sizeof(a));
	}
	free(x);
}

/* ---- packing through float32 ---- */

/* Get tile t of strip s of rows of type `from` as float32, with zeros after the
 * last row. */
static void tile_of_rows(float *values, enum dtype from, const uint8_t *rows,
	unsigned n, unsigned k, unsigned s, unsigned t)
{
	float *row = malloc(k * sizeof(*row));

	memset(values, 0, 1024 * sizeof(*values));
	for (unsigned j = 32 * s; j < n && j < 32 * s + 32; j++) {
		dtype_info(from)->to_f32(
			row, rows + j * dtype_row_bytes(from, k), k);
		memcpy(values + j % 32 * 32, row + 32 * t, 32 * sizeof(*row));
	}
	free(row);
}

static void check_packed(enum dtype to, enum dtype from, unsigned n, unsigned k,
	const uint8_t *rows)
{
	const size_t size = tile_bytes(to, n, k), bytes = tile_info(to)->bytes;
	const unsigned tiles = k / 32, strips = (n + 31) / 32;
	uint8_t *packed = malloc(size), *parts = malloc(size), want[2048];
	float values[1024];

	tile_pack(to, packed, from, rows, n, k);
	for (unsigned i = 0; i < strips * tiles; i++) {
		tile_of_rows(values, from, rows, n, k, i / tiles, i % tiles);
		tile_encode(to, want, values);
		assert_memory_equal(packed + i * bytes, want, bytes);
	}
	tile_pack(to, parts, from, rows, n < 32 ? n : 32, k);
	if (strips > 1)
		tile_pack(to, parts + tiles * bytes, from,
			rows + 32 * dtype_row_bytes(from, k), n - 32, k);
	assert_memory_equal(packed, parts, size);
	free(packed);
	free(parts);
}

static void test_from_floats(void **state)
{
	const unsigned n = 70, k = 288; /* k is 256 and one more tile */
	float *x = gaussians(3, n * k);

	for (size_t t = 0; t < ARRAY_LEN(tiled); t++) {
		check_packed(tiled[t], DTYPE_F32, n, k, (uint8_t *)x);
		check_packed(tiled[t], DTYPE_F32, 1, 32, (uint8_t *)x);
		check_packed(tiled[t], DTYPE_F32, 33, 512, (uint8_t *)x);
	}
	free(x);
}

/* Tests packing from every type that can be read, with random finite scales.
 * The scales of MXFP4 have any exponent. */
static void test_from_blocks(void **state)
{
	static const struct {
		enum dtype type;
		int scale[2]; /* offsets of the fp16 scales in a block, or -1 */
	} from[] = {
		{ DTYPE_F16, { 0, -1 } },
		{ DTYPE_BF16, { 0, -1 } },
		{ DTYPE_Q4_0, { 0, -1 } },
		{ DTYPE_Q4_1, { 0, 2 } },
		{ DTYPE_Q5_0, { 0, -1 } },
		{ DTYPE_Q5_1, { 0, 2 } },
		{ DTYPE_Q8_0, { 0, -1 } },
		{ DTYPE_Q4_K, { 0, 2 } },
		{ DTYPE_Q5_K, { 0, 2 } },
		{ DTYPE_Q6_K, { 208, -1 } },
		{ DTYPE_IQ4_NL, { 0, -1 } },
		{ DTYPE_MXFP4, { -1, -1 } },
		{ DTYPE_NF4, { 0, -1 } },
	};
	const unsigned n = 37, k = 512;

	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		const struct dtype_info *info = dtype_info(from[i].type);
		const size_t size = n * dtype_row_bytes(from[i].type, k);
		uint8_t *rows = random_bytes(i, size);

		for (size_t at = 0; at < size; at += info->bytes) {
			for (int s = 0; s < 2; s++) {
				/* a scale of 0.5 to 2 */
				if (from[i].scale[s] >= 0)
					rows[at + from[i].scale[s] + 1] =
						(uint8_t)(0x38 + at / 8 % 8);
			}
		}
		for (size_t t = 0; t < ARRAY_LEN(tiled); t++) {
			if (!tile_is_exact(tiled[t], from[i].type))
				check_packed(
					tiled[t], from[i].type, n, k, rows);
		}
		free(rows);
	}
}

/* ---- error ---- */

/* The relative error of an [n][k] matrix: the sum of the squared errors divided
 * by the sum of the squared values, and of this quotient the square root. */
static double relative_error(
	enum dtype type, const float *x, unsigned n, unsigned k)
{
	uint8_t *packed = malloc(tile_bytes(type, n, k));
	float *row = malloc(k * sizeof(*row));
	double error = 0, power = 0;

	tile_pack(type, packed, DTYPE_F32, x, n, k);
	for (unsigned j = 0; j < n; j++, x += k) {
		row_of_tiles(type, row, packed, k, j);
		for (unsigned i = 0; i < k; i++) {
			const double d = (double)x[i] - (double)row[i];

			error += d * d;
			power += (double)x[i] * (double)x[i];
		}
	}
	free(packed);
	free(row);
	return sqrt(error / power);
}

static void check_error(enum dtype type, const float *x, double want, double by)
{
	assert_close(relative_error(type, x, 512, 2048), want, want * by,
		tile_info(type)->name);
}

/* If all weights have the same variance, tile groups (2 inputs of 16 outputs)
 * have the same error as conventional groups (32 inputs of one output). */
static void test_gaussian_error(void **state)
{
	float *x = gaussians(4, 512 * 2048);

	check_error(DTYPE_TILE_Q4_0, x, 0.086, 0.01);
	check_error(DTYPE_GROUP_Q4_0, x, 0.086, 0.01);
	check_error(DTYPE_SUPER_Q4_0, x, 0.086, 0.01);
	check_error(DTYPE_SUPER_IQ4_NL, x, 0.080, 0.01);
	check_error(DTYPE_SUPER_NF4, x, 0.087, 0.01);
	check_error(DTYPE_SUPER_FP4, x, 0.101, 0.01);
	check_error(DTYPE_TILE_Q8_0, x, 0.0054, 0.03);
	check_error(DTYPE_GROUP_Q8_0, x, 0.0054, 0.03);
	check_error(DTYPE_SUPER_Q8_0, x, 0.0054, 0.03);
	free(x);
}

/*
 * The weights of each output have a scale of their own, drawn from a lognormal
 * distribution with sigma 0.5. Then groups that span 16 outputs (super-q4_0)
 * have a larger error than groups of one output (tile-q4_0). The test needs
 * many outputs: with only 512, the ratio of the two errors varies by 2 %.
 */
static void test_output_scales(void **state)
{
	const unsigned n = 4096, k = 256;
	float *x = gaussians(5, n * k);

	for (size_t j = 0; j < n; j++) {
		const float scale = (float)exp(0.5 * gauss(6, j));

		for (size_t i = 0; i < k; i++)
			x[j * k + i] *= scale;
	}
	assert_close(relative_error(DTYPE_SUPER_Q4_0, x, n, k) /
			relative_error(DTYPE_TILE_Q4_0, x, n, k),
		1.287, 1.287 * 0.03, "super-q4_0 over tile-q4_0");
	free(x);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_index),
	cmocka_unit_test(test_info),
	cmocka_unit_test(test_sizes),
	cmocka_unit_test(test_refused_sizes),
	cmocka_unit_test(test_is_exact),
	cmocka_unit_test_setup(test_exact, setup),
	cmocka_unit_test(test_exact_bits),
	cmocka_unit_test(test_exact_is_not_requantized),
	cmocka_unit_test(test_q4_0_tile),
	cmocka_unit_test(test_super_q4_0),
	cmocka_unit_test_setup(test_encode, setup),
	cmocka_unit_test_setup(test_super_is_group, setup),
	cmocka_unit_test_setup(test_from_floats, setup),
	cmocka_unit_test_setup(test_from_blocks, setup),
	cmocka_unit_test_setup(test_gaussian_error, setup),
	cmocka_unit_test_setup(test_output_scales, setup),
};

TEST_FILE(tests)
