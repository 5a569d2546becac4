/*
 * Number formats of stored weights. GGUF defines the formats whose number (enum
 * dtype) is below 256. A row of a matrix is a sequence of blocks. A block has
 * `block` values in `bytes` bytes, and the length of a row is a multiple of
 * `block`. Values are converted to and from float32.
 */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the numbers of the formats; model files use those below 256, the wire
 * protocol uses all */
enum dtype {
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
	DTYPE_IQ4_NL = 20,
	DTYPE_BF16 = 30,
	DTYPE_MXFP4 = 39,

	/* Formats that GGUF does not have: whole matrices in tiles
	 * (tensor/tile.h). */
	DTYPE_TILE_F16 = 0x100,
	DTYPE_TILE_Q4_0,
	DTYPE_TILE_Q8_0,
	DTYPE_GROUP_Q4_0,
	DTYPE_GROUP_Q8_0,
	DTYPE_SUPER_Q4_0,
	DTYPE_SUPER_Q8_0,
	DTYPE_SUPER_IQ4_NL,
	DTYPE_SUPER_NF4,
	DTYPE_SUPER_FP4,

	/* Row formats that GGUF does not have: blocks as in IQ4_NL, with other
	 * tables (tensor/dtype_rows.h). */
	DTYPE_NF4 = 0x180,
	DTYPE_FP4,
};

struct dtype_info {
	const char *name; /* "q4_0" */
	unsigned block;   /* values in a block */
	unsigned bytes;   /* bytes of a block */
	/* Decode n values to float32; n is a multiple of `block`. src needs no
	 * alignment. */
	void (*to_f32)(float *dst, const void *src, size_t n);
	/* Encode n float32 values. This member is NULL if the format can only
	 * be decoded. */
	void (*from_f32)(void *dst, const float *src, size_t n);
};

/* Returns the description of a row format. Returns NULL for a tiled type or an
 * unknown number. */
const struct dtype_info *dtype_info(uint32_t type);

/* Whether GGUF has this type, so that a model file can contain tensors of the
 * type. */
static inline bool dtype_in_gguf(uint32_t type)
{
	return type < DTYPE_TILE_F16;
}

/* Find a row format by its name in upper or lower case. Returns 0 or
 * -EINVAL. */
int dtype_parse(const char *name, enum dtype *out);

/* Bytes of a row of n values. Returns 0 if n is 0, too large, or not a multiple
 * of the type's `block`, or if the type is not a row format. */
size_t dtype_row_bytes(uint32_t type, uint64_t n);

/*
 * The number of infinite values and NaNs among n values, a multiple of the
 * type's block. If the scale or offset of a block is not finite, all values of
 * the block are counted.
 */
size_t dtype_not_finite(enum dtype, const void *src, size_t n);

#endif
