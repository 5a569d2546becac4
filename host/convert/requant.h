/*
 * Matrices of a model file in another type, and what that loses. All by way of
 * float32, on the workers' threads; the bytes and the figures do not depend on
 * how many there are.
 */
#ifndef HOST_CONVERT_REQUANT_H
#define HOST_CONVERT_REQUANT_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct workers;

/* Rows of GGUF type `from` at `src` to any type that can be written or packed
 * to (`to` may be `from`). k is whole blocks of both. */
void requant(struct workers *, enum dtype to, void *dst, enum dtype from,
	const void *src, uint32_t n, uint32_t k);

/*
 * Root of the mean square error, divided by the root of the mean square of the
 * source. Conventional groups, 32 values along a row with the same bits, are
 * what tile groups and super-groups are compared with (npu-tts paper, 5.1.1).
 */
struct requant_loss {
	double error;
	bool is_grouped;     /* of tile groups: the next two are set */
	double conventional; /* the error that conventional groups have */
	double ratio;        /* error / conventional; 1 when both are 0,
			      * infinite when only the latter is */
};

/* What a matrix at `packed` has lost. 0 or -ENOMEM. */
int requant_measure(struct workers *, struct requant_loss *, enum dtype to,
	const void *packed, enum dtype from, const void *src, uint32_t n,
	uint32_t k);

#endif
