/*
 * How a model's matrices lie in memory: as in the model file, or in tiles
 * (tensor/tile.h). The layout is chosen for a whole model; each matrix then
 * gets the type of it that suits its own precision.
 *
 * rows    as in the file; every type.
 * tiles   Q4_0, Q8_0 and F16 in tiles that lose nothing; others as in the file.
 * groups  quantized types in tile groups (npu-tts paper, 5.1.1): 4-bit types
 *         become group-q4_0, wider ones group-q8_0, F16 tile-f16; F32 and BF16
 *         stay as in the file.
 * super   the same, coalesced to super-groups (section 5.1.2).
 *
 * A matrix stays as in the file where tiles cannot hold it: k that is no
 * multiple of 32, or a strip larger than `strip_max`.
 */
#ifndef TENSOR_LAYOUT_H
#define TENSOR_LAYOUT_H

#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct workers;

enum layout {
	LAYOUT_UNSAID = -1, /* of an option: left to what the model is */
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

/* Rows of GGUF type `from` at `src` to type `to`, on the workers' threads; with
 * dst NULL they are only looked at. dtype_not_finite of them. */
uint64_t layout_pack(struct workers *, enum dtype to, void *dst,
	enum dtype from, const void *src, uint32_t n, uint32_t k);

#endif
