/*
 * The layout of a model's matrices in memory: rows as in the model file, or
 * tiles (tensor/tile.h). One layout is chosen for the whole model. The stored
 * type of each matrix then follows from the layout and from the matrix's type
 * in the file:
 *
 * - rows: as in the file, for every type.
 * - tiles: Q4_0, Q8_0 and F16 in lossless tiles; other types as in the file.
 * - groups: quantized types in tile groups (npu-tts paper, section 5.1.1; the
 *   paper is named in tensor/soc/price.h). 4-bit types, with or without tables,
 *   become group-q4_0, wider quantized types group-q8_0, F16 becomes tile-f16;
 *   F32 and BF16 stay as in the file.
 * - super: like groups, with groups coalesced into super-groups (section
 *   5.1.2). Types with a table keep the table: IQ4_NL becomes super-iq4_nl, NF4
 *   becomes super-nf4, FP4 and MXFP4 become super-fp4.
 *
 * A matrix stays as in the file if tiles cannot store it: its row length k is
 * not a multiple of 32, or a strip (32 outputs) is larger than `strip_max`
 * bytes.
 */
#ifndef TENSOR_LAYOUT_H
#define TENSOR_LAYOUT_H

#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct workers;

enum layout {
	/* the user gave no layout: use the default for the kind of model */
	LAYOUT_DEFAULT = -1,
	LAYOUT_ROWS,
	LAYOUT_TILES,
	LAYOUT_GROUPS,
	LAYOUT_SUPER
};

/* The names "rows", "tiles", "groups", "super" in the order of the enum, then
 * NULL. */
extern const char *const layout_names[];

/* The type in which the layout stores a matrix of GGUF type `from` with rows of
 * k values. */
enum dtype layout_type(
	enum layout, enum dtype from, uint32_t k, size_t strip_max);

/* The name of a GGUF type or of a tiled type: "q4_0", "super-q4_0". */
const char *layout_type_name(uint32_t type);

/* Bytes of an [n][k] matrix of a GGUF type or of a tiled type. */
size_t layout_bytes(enum dtype, uint32_t n, uint32_t k);

/* A matrix to convert. */
struct layout_source {
	enum dtype type; /* a GGUF type */
	const void *data;
	/* the open file that `data` belongs to, which is then read with
	 * gguf_read; NULL: access `data` in memory */
	const struct gguf *file;
};

/*
 * Convert an [n][k] matrix to type `to`, on the threads of the pool. If dst is
 * NULL, only check the values. Returns the number of values that are not finite
 * (dtype_not_finite).
 */
uint64_t layout_pack(struct workers *, enum dtype to, void *dst,
	struct layout_source from, uint32_t n, uint32_t k);

#endif
