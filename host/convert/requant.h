/*
 * Converts matrices of a model file to another type, and measures the loss of
 * precision. All values are converted to float32 in between. Worker threads
 * share the work; the results do not depend on the number of threads.
 */
#ifndef HOST_CONVERT_REQUANT_H
#define HOST_CONVERT_REQUANT_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct workers;

/*
 * Convert a matrix [n][k] of type `from` at `src` to type `to`. `from` must be
 * a GGUF type; `to` can be any type that can be written, or a memory layout,
 * and may be equal to `from`. k must be a multiple of the block sizes of both
 * types. With by_channel, each row is first rounded to 16 multiples of one
 * scale (4 bits per channel, as in table 1 of the npu-tts paper); `to` must
 * then be F16.
 */
void requant(struct workers *, enum dtype to, void *dst, enum dtype from,
	const void *src, uint32_t n, uint32_t k, bool by_channel);

/*
 * The loss of a conversion. `error` is the root mean square of the errors
 * divided by the root mean square of the source values. Tile groups are
 * quantization groups made of weights of one tile; super-groups are several
 * tile groups merged (section 5.1.1 of the npu-tts paper, "Scaling LLM
 * test-time compute with mobile NPU on smartphones"). Both kinds of groups are
 * compared with conventional groups: 32 values along a row, quantized with the
 * same number of bits.
 */
struct requant_loss {
	double error;
	/* whether the type after the conversion has tile groups or
	 * super-groups; only then the next two members are set */
	bool is_grouped;
	double conventional; /* error of conventional groups */
	/* error / conventional; 1 if both are 0, infinite if only
	 * `conventional` is 0 */
	double ratio;
	/* sums of squares: of the source values, of the errors, and of the
	 * errors of conventional groups */
	struct requant_sums {
		double source, error, conventional;
	} sums;
};

/*
 * Measure the loss of the matrix at `packed`, which was converted to `to` from
 * the matrix at `src`. *loss must be zero, or the loss of other matrices
 * converted between the same types; the new loss then covers these matrices as
 * well. Returns 0 or -ENOMEM.
 */
int requant_measure(struct workers *, struct requant_loss *, enum dtype to,
	const void *packed, enum dtype from, const void *src, uint32_t n,
	uint32_t k);

#endif
