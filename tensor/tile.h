/*
 * Matrices in the order in which a matrix engine reads them: tiles of 32
 * outputs (n) by 32 inputs (k). The tiles of one strip (32 outputs and all
 * inputs) are contiguous: tile t of strip s is tile number s * (k / 32) + t, so
 * that a strip is one read. k is a multiple of 32, and a short last strip is
 * padded with zeros. The functions allocate nothing, keep no state and require
 * no alignment. For a type that is not tiled, the size functions return 0, and
 * no other function may be called.
 *
 * Formats, where k and n are indices within the tile; the npu-tts paper is
 * named in tensor/soc/price.h:
 *
 * - tile-f16, 2048 B: fp16 at index (k & ~1) * 32 + 2 n + (k & 1): two
 *   adjacent k interleaved (npu-tts paper, figure 4).
 * - tile-q4_0, 576 B: a group is, as in GGUF, 32 inputs k of one output. First
 *   the nibbles [k / 2][n], the low nibble for even k; then 32 fp16 scales, one
 *   for each output. Repacking Q4_0 is lossless.
 * - tile-q8_0, 1088 B: the same groups with the codes of Q8_0. First int8
 *   [k / 4][n][k % 4]; then 32 fp16 scales.
 * - group-q4_0, 576 B: every 32 values that are consecutive in tile-f16's order
 *   (2 inputs by 16 outputs) are a group. The tile is 32 such groups, each of
 *   which is stored as a block of GGUF's Q4_0, 18 B (section 5.1.1).
 * - group-q8_0, 1088 B: the same with Q8_0's blocks of 34 B.
 * - super-q4_0, 576 B: four super-groups, each of eight groups as in
 *   group-q4_0. A super-group is 8 fp16 scales, then 128 B of nibbles in the
 *   order that table look-ups need (section 5.1.2). It has 256 elements. With
 *   v = e / 64 and i = e % 64, element e has the low nibble (if v < 2) or the
 *   high nibble (otherwise) of byte 2 i + (v & 1).
 * - super-iq4_nl, super-nf4, super-fp4, 576 B: stored as super-q4_0, but a
 *   nibble is an index of a table (section 5.2.2; lut_iq4_nl, lut_nf4 and
 *   lut_fp4 in tensor/dtype_rows.h).
 * - super-q8_0, 1088 B: four super-groups, each 8 fp16 scales, then 256 int8 in
 *   order.
 *
 * With the fp16 scale d, a value is (q - 8) * d in the 4-bit formats without a
 * table, table[q] * d in the formats with a table, and q * d in the 8-bit
 * formats, computed in float32.
 */
#ifndef TENSOR_TILE_H
#define TENSOR_TILE_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TILE        32 /* a tile has 32 outputs (n) by 32 inputs (k) */
#define TILE_VALUES (TILE * TILE)

struct tile_info {
	const char *name; /* "tile-q4_0" */
	unsigned bytes;   /* bytes of one tile */
	unsigned bits;    /* number of bits of a stored value: 4, 8 or 16 */
	/* the GGUF type or row format by which a group of 32 values is encoded
	 */
	enum dtype block;
	/* true: a group is 32 inputs of one output; false: 32 consecutive
	 * values in the order of tile_index */
	bool by_output;
};

/* Returns the description of a tiled type, or NULL if the type is not tiled. */
const struct tile_info *tile_info(uint32_t type);

/* Bytes of a strip of 32 outputs by k inputs. Returns 0 if the type is not
 * tiled, or if k is too large or not a multiple of 32. */
size_t tile_strip_bytes(uint32_t type, uint64_t k);

/* Bytes of an [n][k] matrix in tiles. Returns 0 in the same cases as
 * tile_strip_bytes. */
size_t tile_bytes(uint32_t type, uint64_t n, uint64_t k);

/* Index of the value (k, n) in a tile of tile-f16. Groups and super-groups are
 * consecutive values in this order. */
static inline unsigned tile_index(unsigned k, unsigned n)
{
	return (k & ~1u) * TILE + 2 * n + (k & 1);
}

/*
 * Encode one tile from float32 [32 n][32 k], or decode it. Encoding quantizes
 * every group of 32 values as dtype.h quantizes a row of 32 values, with the
 * same scale and codes.
 */
void tile_encode(enum dtype type, void *dst, const float *src);
void tile_decode(enum dtype type, float *dst, const void *src);

/* Whether repacking a matrix from type `from` to type `to` is lossless: Q4_0 to
 * tile-q4_0, Q8_0 to tile-q8_0, and F16 to tile-f16. */
bool tile_is_exact(enum dtype to, enum dtype from);

/*
 * Repack an [n][k] matrix of GGUF type `from`, or n of its rows, beginning with
 * the first row of a strip. k is a multiple of the type's block. If
 * tile_is_exact, codes and scales are copied, else the tiles are encoded from
 * float32. Several threads may pack strips of one matrix. Uses 36 KiB of stack.
 */
void tile_pack(enum dtype to, void *dst, enum dtype from, const void *src,
	uint32_t n, uint32_t k);

#endif
