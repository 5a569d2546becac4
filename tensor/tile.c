#include "tensor/tile.h"

#include "base/checked.h"
#include "tensor/dtype_rows.h"

#include <assert.h>
#include <string.h>

#define GROUPS 32 /* number of groups in a tile; a group has 32 values */
/* number of groups that one call of `put` stores: a super-group of 256 values
 */
#define BATCH 8
/* bytes of the largest group, which has 32 fp16 values */
#define BLOCK_MAX 64
/* number of inputs (values along k) that are converted at once: a multiple of
 * the block size of every type */
#define SPAN 256

/* Every format stores the 32 groups of a tile. Formats differ in which values
 * form a group, and in where the bytes of a group are stored. */
struct format {
	struct tile_info info;
	/* a byte whose codes decode to 0, for missing outputs; used if
	 * info.by_output is set */
	uint8_t zero;
	/* Store the groups g to g + 7 in the tile. They are read from blocks of
	 * `size` bytes that are `stride` bytes apart. */
	void (*put)(uint8_t *tile, unsigned g, const uint8_t *block,
		size_t stride, size_t size);
	/* Load group g of the tile into a block of `size` bytes. */
	void (*get)(
		uint8_t *block, const uint8_t *tile, unsigned g, size_t size);
};

/* ---- formats whose groups are 32 inputs of one output ---- */

static void scales_put(uint8_t *dst, const uint8_t *block, size_t stride)
{
	for (unsigned i = 0; i < BATCH; i++)
		memcpy(dst + 2 * i, block + i * stride, 2);
}

/* Store groups whose blocks are f16 (16 words of 4 bytes) or q8_0 (a scale of 2
 * bytes, and 8 words of 4 bytes). In the tile, the words j of all 32 outputs
 * are contiguous, and the scales follow all words. */
static void tile_words_put(uint8_t *tile, unsigned g, const uint8_t *block,
	size_t stride, size_t size)
{
	const size_t scale = size % 4, words = size / 4;

	if (scale)
		scales_put(tile + TILE_VALUES + scale * g, block, stride);
	block += scale;
	for (unsigned i = 0; i < BATCH; i++, block += stride) {
		for (unsigned j = 0; j < words; j++)
			memcpy(tile + 4 * (j * TILE + g + i), block + 4 * j, 4);
	}
}

static void tile_words_get(
	uint8_t *block, const uint8_t *tile, unsigned g, size_t size)
{
	const size_t scale = size % 4, words = size / 4;

	memcpy(block, tile + TILE_VALUES + scale * g, scale);
	block += scale;
	for (unsigned j = 0; j < words; j++)
		memcpy(block + 4 * j, tile + 4 * (j * TILE + g), 4);
}

typedef uint64_t two __attribute__((vector_size(16)));

/* Exchange those bits of b that are set in `mask` with the bits of a that are
 * `shift` positions higher. */
static inline void two_swap(two *a, two *b, int shift, uint64_t mask)
{
	const two t = (*a >> shift ^ *b) & mask;

	*a ^= t << shift;
	*b ^= t;
}

/*
 * On entry, r[i] has the 16 bytes of output i; byte j holds the values j (low
 * nibble) and j + 16 (high nibble). Transpose both halves of the eight vectors,
 * 8 by 8 bytes, so that r[i] has the bytes i and i + 8 of all eight outputs.
 * The last step joins the low nibbles of two neighbouring vectors in one
 * vector, and their high nibbles in the other.
 */
static inline void two_weave(two r[8])
{
#pragma GCC unroll 4
	for (int i = 0; i < 8; i += 2)
		two_swap(&r[i], &r[i + 1], 8, 0x00ff00ff00ff00ffu);
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		const int a = i + (i & 2); /* for i = 0 to 3, a is 0, 1, 4, 5 */

		two_swap(&r[a], &r[a + 2], 16, 0x0000ffff0000ffffu);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		two_swap(&r[i], &r[i + 4], 32, 0x00000000ffffffffu);
#pragma GCC unroll 4
	for (int i = 0; i < 8; i += 2)
		two_swap(&r[i], &r[i + 1], 4, 0x0f0f0f0f0f0f0f0fu);
}

static void tile_q4_0_put(uint8_t *tile, unsigned g, const uint8_t *block,
	size_t stride, size_t size)
{
	two r[8];

	scales_put(tile + TILE_VALUES / 2 + 2 * g, block, stride);
#pragma GCC unroll 8
	for (unsigned i = 0; i < 8; i++)
		r[i] = (two)row_get(block + i * stride + 2);
	two_weave(r);
#pragma GCC unroll 8
	for (unsigned i = 0; i < 8; i++) {
		/* even i: values 0-15; odd i: values 16-31 */
		uint8_t *row = tile + (i / 2 + i % 2 * 8) * TILE + g;
		const uint64_t near = r[i][0], far = r[i][1];

		memcpy(row, &near, 8);
		memcpy(row + 4 * TILE, &far, 8);
	}
}

static void tile_q4_0_get(
	uint8_t *block, const uint8_t *tile, unsigned g, size_t size)
{
	uint8_t *q = block + 2;

	memcpy(block, tile + TILE_VALUES / 2 + 2 * g, 2);
	for (unsigned j = 0; j < 8; j++) {
		const unsigned a = tile[j * TILE + g];
		const unsigned b = tile[(j + 8) * TILE + g];

		q[2 * j] = (uint8_t)((a & 15) | b << 4);
		q[2 * j + 1] = (uint8_t)(a >> 4 | (b & 0xf0));
	}
}

/* ---- formats whose groups are consecutive in the order of tile_index ---- */

static void group_put(uint8_t *tile, unsigned g, const uint8_t *block,
	size_t stride, size_t size)
{
	for (unsigned i = 0; i < BATCH; i++)
		memcpy(tile + size * (g + i), block + i * stride, size);
}

static void group_get(
	uint8_t *block, const uint8_t *tile, unsigned g, size_t size)
{
	memcpy(block, tile + size * g, size);
}

/*
 * Offset of the first byte of the codes of group g < 8 in a super-group. Value
 * j of the group is 2 j bytes after this byte. Group g + 4 uses the high
 * nibbles of the same bytes as group g.
 */
static unsigned super_at(unsigned g)
{
	return 2 * BATCH + g % 2 * 64 + g / 2 % 2;
}

static void super_4_bit_put(uint8_t *tile, unsigned g, const uint8_t *block,
	size_t stride, size_t size)
{
	uint8_t *super = tile + g / BATCH * 144;

	scales_put(super, block, stride);
	for (unsigned i = 0; i < 4; i++, block += stride) {
		uint8_t *p = super + super_at(i);

		for (unsigned j = 0; j < 16; j++) {
			const unsigned a = block[2 + j];
			const unsigned b = block[4 * stride + 2 + j];

			p[2 * j] = (uint8_t)((a & 15) | b << 4);
			p[2 * j + 32] = (uint8_t)(a >> 4 | (b & 0xf0));
		}
	}
}

static void super_4_bit_get(
	uint8_t *block, const uint8_t *tile, unsigned g, size_t size)
{
	const uint8_t *super = tile + g / BATCH * 144;
	const uint8_t *p = super + super_at(g % BATCH);
	const int shift = g % BATCH < 4 ? 0 : 4;

	memcpy(block, super + 2 * (g % BATCH), 2);
	for (unsigned j = 0; j < 16; j++) {
		const unsigned a = p[2 * j] >> shift & 15;
		const unsigned b = p[2 * j + 32] >> shift & 15;

		block[2 + j] = (uint8_t)(a | b << 4);
	}
}

static void super_q8_0_put(uint8_t *tile, unsigned g, const uint8_t *block,
	size_t stride, size_t size)
{
	uint8_t *super = tile + g / BATCH * 272;

	scales_put(super, block, stride);
	for (unsigned i = 0; i < BATCH; i++)
		memcpy(super + 16 + 32 * i, block + i * stride + 2, 32);
}

static void super_q8_0_get(
	uint8_t *block, const uint8_t *tile, unsigned g, size_t size)
{
	const uint8_t *super = tile + g / BATCH * 272;

	memcpy(block, super + 2 * (g % BATCH), 2);
	memcpy(block + 2, super + 16 + 32 * (g % BATCH), 32);
}

/* ---- table of the formats ---- */

/* one row for each tiled type, in the order of enum dtype */
static const struct format formats[] = {
	{ { "tile-f16", 2048, 16, DTYPE_F16, true }, 0, tile_words_put,
		tile_words_get },
	{ { "tile-q4_0", 576, 4, DTYPE_Q4_0, true }, 0x88, tile_q4_0_put,
		tile_q4_0_get },
	{ { "tile-q8_0", 1088, 8, DTYPE_Q8_0, true }, 0, tile_words_put,
		tile_words_get },
	{ { "group-q4_0", 576, 4, DTYPE_Q4_0, false }, 0x88, group_put,
		group_get },
	{ { "group-q8_0", 1088, 8, DTYPE_Q8_0, false }, 0, group_put,
		group_get },
	{ { "super-q4_0", 576, 4, DTYPE_Q4_0, false }, 0x88, super_4_bit_put,
		super_4_bit_get },
	{ { "super-q8_0", 1088, 8, DTYPE_Q8_0, false }, 0, super_q8_0_put,
		super_q8_0_get },
	{ { "super-iq4_nl", 576, 4, DTYPE_IQ4_NL, false }, 0, super_4_bit_put,
		super_4_bit_get },
	{ { "super-nf4", 576, 4, DTYPE_NF4, false }, 0, super_4_bit_put,
		super_4_bit_get },
	{ { "super-fp4", 576, 4, DTYPE_FP4, false }, 0, super_4_bit_put,
		super_4_bit_get },
};

static const struct format *format_of(uint32_t type)
{
	const uint32_t i = type - DTYPE_TILE_F16;

	return i < ARRAY_LEN(formats) ? &formats[i] : NULL;
}

const struct tile_info *tile_info(uint32_t type)
{
	const struct format *f = format_of(type);

	return f ? &f->info : NULL;
}

size_t tile_strip_bytes(uint32_t type, uint64_t k)
{
	const struct format *f = format_of(type);
	size_t bytes;

	if (!f || k % TILE || size_mul(&bytes, k / TILE, f->info.bytes))
		return 0;
	return bytes;
}

size_t tile_bytes(uint32_t type, uint64_t n, uint64_t k)
{
	const uint64_t strips = n / TILE + (n % TILE != 0);
	size_t bytes;

	if (size_mul(&bytes, strips, tile_strip_bytes(type, k)))
		return 0;
	return bytes;
}

/* ---- conversion between tiles and float32 ---- */

static void encode(const struct format *f, uint8_t *tile, const float *values)
{
	const struct dtype_info *block = dtype_info(f->info.block);
	const size_t bytes = dtype_row_bytes(f->info.block, 32);
	uint8_t blocks[BATCH * BLOCK_MAX];

	for (unsigned g = 0; g < GROUPS; g += BATCH) {
		block->from_f32(blocks, values + 32 * g, BATCH * 32);
		f->put(tile, g, blocks, bytes, bytes);
	}
}

void tile_encode(enum dtype type, void *dst, const float *src)
{
	const struct format *f = format_of(type);
	float values[TILE_VALUES];

	assert(f);
	if (f->info.by_output) {
		encode(f, dst, src);
		return;
	}
	for (unsigned n = 0; n < TILE; n++) {
		for (unsigned k = 0; k < TILE; k++)
			values[tile_index(k, n)] = src[n * TILE + k];
	}
	encode(f, dst, values);
}

void tile_decode(enum dtype type, float *dst, const void *src)
{
	const struct format *f = format_of(type);
	const size_t size = dtype_row_bytes(f->info.block, 32);
	float values[TILE_VALUES];
	uint8_t block[BLOCK_MAX];

	for (unsigned g = 0; g < GROUPS; g++) {
		f->get(block, src, g, size);
		dtype_info(f->info.block)
			->to_f32((f->info.by_output ? dst : values) + 32 * g,
				block, 32);
	}
	if (f->info.by_output)
		return;
	for (unsigned n = 0; n < TILE; n++) {
		for (unsigned k = 0; k < TILE; k++)
			dst[n * TILE + k] = values[tile_index(k, n)];
	}
}

/* ---- packing of matrices ---- */

bool tile_is_exact(enum dtype to, enum dtype from)
{
	const struct format *f = format_of(to);

	return f && f->info.by_output && f->info.block == from;
}

/* Store the outputs g to g + 7 of a tile that has only `live` outputs; outputs
 * from number `live` on are stored as zeros. */
static void put_short(const struct format *f, uint8_t *tile, unsigned g,
	const uint8_t *block, size_t stride, unsigned live)
{
	const size_t bytes = dtype_row_bytes(f->info.block, 32);
	uint8_t blocks[BATCH][BLOCK_MAX];

	for (unsigned i = 0; i < BATCH; i++) {
		if (g + i < live) {
			memcpy(blocks[i], block + (g + i) * stride, bytes);
		} else {
			memset(blocks[i], f->zero, bytes);
			/* zero the scale too, if the format has one */
			memset(blocks[i], 0, 2);
		}
	}
	f->put(tile, g, blocks[0], BLOCK_MAX, bytes);
}

/* Pack a strip of `live` <= 32 outputs from blocks of the type that the
 * format's groups have, without decoding them. */
static void pack_blocks(const struct format *f, uint8_t *dst,
	const uint8_t *src, unsigned live, uint32_t k)
{
	const size_t stride = dtype_row_bytes(f->info.block, k);
	const size_t bytes = dtype_row_bytes(f->info.block, 32);

	for (uint32_t t = 0; t < k / TILE; t++) {
		const uint8_t *block = src + t * bytes;
		unsigned g = 0;

		for (; g + BATCH <= live; g += BATCH)
			f->put(dst, g, block + g * stride, stride, bytes);
		for (; g < TILE; g += BATCH)
			put_short(f, dst, g, block, stride, live);
		dst += f->info.bytes;
	}
}

/* Pack a strip of `live` <= 32 outputs from blocks of any type, converted
 * through float32. */
static void pack_values(enum dtype to, uint8_t *dst, enum dtype from,
	const uint8_t *src, unsigned live, uint32_t k)
{
	const struct dtype_info *info = dtype_info(from);
	const size_t stride = dtype_row_bytes(from, k);
	float tiles[SPAN / TILE][TILE][TILE], row[SPAN];

	memset(tiles, 0, sizeof(tiles));
	for (uint32_t left = k; left;) {
		const unsigned span = left < SPAN ? left : SPAN;

		for (unsigned j = 0; j < live; j++) {
			info->to_f32(row, src + j * stride, span);
			for (unsigned i = 0; i < span; i += TILE)
				memcpy(tiles[i / TILE][j], row + i,
					TILE * sizeof(*row));
		}
		for (unsigned i = 0; i < span; i += TILE) {
			tile_encode(to, dst, tiles[i / TILE][0]);
			dst += tile_info(to)->bytes;
		}
		src += dtype_row_bytes(from, span);
		left -= span;
	}
}

void tile_pack(enum dtype to, void *dst, enum dtype from, const void *src,
	uint32_t n, uint32_t k)
{
	const size_t strip = tile_strip_bytes(to, k);
	const size_t row = dtype_row_bytes(from, k);
	const uint8_t *rows = src;
	uint8_t *to_strip = dst;

	assert(strip && row);
	for (uint32_t live; n; n -= live) {
		live = n < TILE ? n : TILE;
		if (tile_is_exact(to, from))
			pack_blocks(format_of(to), to_strip, rows, live, k);
		else
			pack_values(to, to_strip, from, rows, live, k);
		rows += live * row;
		to_strip += strip;
	}
}
