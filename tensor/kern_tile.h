/*
 * Definitions that the implementations of the matrix products on tiles share:
 * the format of a quantized row, and the workspace. Private to tensor/.
 *
 * A quantized row of k values has these parts, without gaps:
 *
 *   int8 codes [k]               in order
 *   int8 codes [k]               again, each 16 of them transposed as a 4 by 4
 *                                matrix: 0 4 8 12, 1 5 9 13, ...
 *   int32 [k / 32]               -8 times the sum of 32 consecutive codes
 *   int32 [k / 32]               -128 times the same sum
 *   float32 [k / 256, rounded up] scales
 *
 * and zeros up to a multiple of 64 bytes. Dot-product instructions multiply
 * unsigned weights by signed activations. An unsigned weight is too large by a
 * constant: by 8 for a stored nibble, and by 128 for an int8 whose top bit is
 * flipped. The int32 values correct this: an integer sum starts from the value
 * of its group. The second copy of the codes has the order in which a vector of
 * weights has its nibbles: the bytes of four pairs of inputs are interleaved,
 * and then each byte is split into its two nibbles.
 */
#ifndef TENSOR_KERN_TILE_H
#define TENSOR_KERN_TILE_H

#include "tensor/tile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define Q8_GROUP 256 /* activations that share a scale */
#define Q8_TILES (Q8_GROUP / TILE)

/* Magnitudes of activations are clamped to Q8_HUGE, so that 127 times the scale
 * is finite. If all magnitudes of a group of 256 are below Q8_TINY, the codes
 * are 0. */
#define Q8_HUGE 0x1p127f
#define Q8_TINY 0x1p-100f

/* Offsets of the parts of a quantized row, in bytes. */
static inline size_t q8_permuted_at(unsigned k)
{
	return k;
}

static inline size_t q8_start_at(unsigned k, bool four_bits)
{
	return 2 * (size_t)k + (four_bits ? 0 : k / TILE * sizeof(int32_t));
}

static inline size_t q8_scale_at(unsigned k)
{
	return 2 * (size_t)k + 2 * (k / TILE) * sizeof(int32_t);
}

/* Workspace of matmul_tile and of matmul_q8 in bytes, for any number of inputs
 * k: two thirds of an L1 cache of 48 KiB. */
#define TILE_SCRATCH 32768

#endif
