/*
 * Converts matrices of a model file to another type, and measures the loss.
 * Values pass through float32 on the workers' threads; results do not depend on
 * the number of threads.
 */
#ifndef HOST_CONVERT_REQUANT_H
#define HOST_CONVERT_REQUANT_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct workers;

/* Convert rows of GGUF type `from` at `src` to any type that can be written or
 * packed to (`to` may be `from`). k is a multiple of both block sizes. */
void requant(struct workers *, enum dtype to, void *dst, enum dtype from,
	const void *src, uint32_t n, uint32_t k);

/*
 * Error: root of the mean square error over the root of the mean square of the
 * source. Conventional groups, 32 values along a row with the same bits, are
 * the reference for tile groups and super-groups (npu-tts paper, 5.1.1).
 */
struct requant_loss {
	double error;
	bool is_grouped;     /* a type of tile groups: the next two are set */
	double conventional; /* error of conventional groups */
	/* error / conventional; 1 if both are 0, infinite if only the latter
	 * is */
	double ratio;
};

/* Measure the loss of a matrix at `packed`. 0 or -ENOMEM. */
int requant_measure(struct workers *, struct requant_loss *, enum dtype to,
	const void *packed, enum dtype from, const void *src, uint32_t n,
	uint32_t k);

#endif
