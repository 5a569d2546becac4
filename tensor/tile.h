/*
 * Matrices in the order of a matrix engine: tiles of 32 outputs by 32 k. The
 * k-tiles of one strip of 32 outputs are contiguous (strip s, k-tile t is tile
 * s * (k / 32) + t), so that a strip is one read. k is a multiple of 32; a
 * short last strip is padded with zeros. Nothing here allocates, keeps state or
 * requires alignment. For a type that is not tiled, sizes are 0; elsewhere such
 * a type is a caller's bug.
 *
 * Formats (n and k counted within the tile):
 *
 * tile-f16    2048 B. fp16 at index (k & ~1) * 32 + 2 n + (k & 1): two
 *             adjacent k interleaved (npu-tts paper, figure 4).
 * tile-q4_0    576 B. GGUF's groups of 32 k of one output: nibbles
 *             [k / 2][n], the low ones for even k, then 32 fp16 scales.
 *             Repacking Q4_0 is lossless.
 * tile-q8_0   1088 B. The same for Q8_0: int8 [k / 4][n][k % 4], 32 scales.
 * group-q4_0   576 B. Every 32 values that are consecutive in tile-f16's order
 *             (2 k by 16 outputs) are a group: 32 blocks as in GGUF, 18 B
 *             each (section 5.1.1).
 * group-q8_0  1088 B. The same with Q8_0's blocks of 34 B.
 * super-q4_0   576 B. Eight such groups coalesced: 8 fp16 scales, then 128 B
 *             of nibbles in the order that table look-ups need (section
 *             5.1.2): element e of 256, v = e / 64, i = e % 64, is byte
 *             2 i + (v & 1), low nibble if v < 2. Four in a tile.
 * super-q8_0  1088 B. 8 scales, then 256 int8 in order. Four in a tile.
 *
 * A value is (q - 8) * d in the 4-bit formats and q * d in the 8-bit ones, d
 * the fp16 scale, in float32.
 */
#ifndef TENSOR_TILE_H
#define TENSOR_TILE_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TILE        32 /* outputs, and k, of a tile */
#define TILE_VALUES (TILE * TILE)

struct tile_info {
	const char *name; /* "tile-q4_0" */
	unsigned bytes;   /* of a tile */
	unsigned bits;    /* of a code: 4, 8 or 16 */
};

/* NULL for a type that is not tiled. */
const struct tile_info *tile_info(uint32_t type);

/* Bytes of a strip of k, a multiple of 32; 0 when the type is not tiled or k
 * is not whole tiles or too large. */
size_t tile_strip_bytes(uint32_t type, uint64_t k);

/* Bytes of an [n][k] matrix; 0 likewise. */
size_t tile_bytes(uint32_t type, uint64_t n, uint64_t k);

/* Index of (k, n) within a tile-f16; groups and super-groups are consecutive
 * values in the same order. */
static inline unsigned tile_index(unsigned k, unsigned n)
{
	return (k & ~1u) * TILE + 2 * n + (k & 1);
}

/* One tile from and to float32 [32 n][32 k]. Encoding quantizes every group
 * like a row of 32 in dtype.h, to the same scale and the same codes. */
void tile_encode(enum dtype type, void *dst, const float *src);
void tile_decode(enum dtype type, float *dst, const void *src);

/*
 * Whether repacking a matrix of type `from` to type `to` is lossless:
 * tile-q4_0 from Q4_0, tile-q8_0 from Q8_0, tile-f16 from F16.
 */
bool tile_is_exact(enum dtype to, enum dtype from);

/*
 * Repack strips [first, first + count) of an [n][k] matrix of GGUF type
 * `from` (rows of k, whole blocks) to `dst`, where strip `first` begins; src is
 * the whole matrix. If tile_is_exact, codes and scales are copied; else tiles
 * are encoded from float32. Several threads may pack strips of one matrix. Uses
 * 36 KiB of stack.
 */
void tile_pack(enum dtype to, void *dst, enum dtype from, const void *src,
	uint32_t n, uint32_t k, uint32_t first, uint32_t count);

#endif
