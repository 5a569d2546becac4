/*
 * Number formats of stored weights: GGUF's types, with GGUF's numbers. Each is
 * a sequence of blocks of `block` values in `bytes` bytes along a row; a row
 * has whole blocks only. All conversions go through float32.
 */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include <stddef.h>
#include <stdint.h>

enum dtype { /* GGUF's numbers: part of the file format and of the wire */
	DTYPE_F32 = 0,
	DTYPE_F16 = 1,
	DTYPE_Q4_0 = 2,
	DTYPE_Q4_1 = 3,
	DTYPE_Q5_0 = 6,
	DTYPE_Q5_1 = 7,
	DTYPE_Q8_0 = 8,
	DTYPE_Q4_K = 12,
	DTYPE_Q5_K = 13,
	DTYPE_Q6_K = 14,
	DTYPE_BF16 = 30,

	/* Not GGUF's: whole matrices in tiles, tensor/tile.h. */
	DTYPE_TILE_F16 = 0x100,
	DTYPE_TILE_Q4_0,
	DTYPE_TILE_Q8_0,
	DTYPE_GROUP_Q4_0,
	DTYPE_GROUP_Q8_0,
	DTYPE_SUPER_Q4_0,
	DTYPE_SUPER_Q8_0,
};

struct dtype_info {
	const char *name; /* "q4_0" */
	unsigned block;   /* values of a block */
	unsigned bytes;   /* bytes of a block */
	/* n values, a multiple of `block`; src needs no alignment. */
	void (*to_f32)(float *dst, const void *src, size_t n);
	/* NULL for a format that is only read. */
	void (*from_f32)(void *dst, const float *src, size_t n);
};

/* NULL for any other number, tiled types included. */
const struct dtype_info *dtype_info(uint32_t type);

/* By name, upper or lower case: 0 or -EINVAL. */
int dtype_parse(const char *name, enum dtype *out);

/* Bytes of one row of n values; 0 when n is 0, not whole blocks, or too
 * large, or the type is unknown. */
size_t dtype_row_bytes(uint32_t type, uint64_t n);

/* The number of infinite values and NaN among n values, a multiple of the
 * type's block. All values of a block with such a scale or offset count. */
size_t dtype_not_finite(enum dtype, const void *src, size_t n);

#endif
