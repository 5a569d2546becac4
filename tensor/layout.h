/*
 * The layout of a model's matrices in memory: rows as in the model file, or
 * tiles (tensor/tile.h). The layout is chosen for a whole model; each matrix
 * then gets the layout's type for its own precision.
 *
 * rows    as in the file; every type.
 * tiles   Q4_0, Q8_0 and F16 in lossless tiles; others as in the file.
 * groups  quantized types in tile groups (npu-tts paper, 5.1.1): 4-bit types
 *         become group-q4_0, wider ones group-q8_0, F16 tile-f16; F32 and BF16
 *         stay as in the file.
 * super   the same, coalesced into super-groups (section 5.1.2).
 *
 * A matrix stays as in the file if tiles cannot store it: k is not a
 * multiple of 32, or a strip is larger than `strip_max`.
 */
#ifndef TENSOR_LAYOUT_H
#define TENSOR_LAYOUT_H

#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct workers;

enum layout {
	LAYOUT_UNSAID = -1, /* of an option: chosen by the model's kind */
	LAYOUT_ROWS,
	LAYOUT_TILES,
	LAYOUT_GROUPS,
	LAYOUT_SUPER
};

/* "rows", "tiles", "groups", "super", NULL: in the enum's order. */
extern const char *const layout_names[];

/* The type of an [n][k] matrix of GGUF type `from`. */
enum dtype layout_type(
	enum layout, enum dtype from, uint32_t k, size_t strip_max);

/* "q4_0", "super-q4_0": of any type. */
const char *layout_type_name(uint32_t type);

/* Bytes of an [n][k] matrix of any type. */
size_t layout_bytes(enum dtype, uint32_t n, uint32_t k);

/* Convert rows of GGUF type `from` at `src` to type `to`, on the workers'
 * threads; with dst NULL only check them. Returns the number of values that are
 * not finite (dtype_not_finite). */
uint64_t layout_pack(struct workers *, enum dtype to, void *dst,
	enum dtype from, const void *src, uint32_t n, uint32_t k);

#endif
