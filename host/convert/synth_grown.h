/*
 * Grows a model into a larger shape: the model's weights fill a corner of the
 * shape's matrices, and all other weights are zero. So the larger model
 * computes and generates the same as the smaller model, but at the cost of its
 * own shape. In benchmarks with such models, both the acceptance of drafts and
 * the cost of a pass are realistic.
 *
 *   - Width: the elements of a hidden state beyond the model's width are zero.
 *     A norm divides by the root of a mean over more elements, so its weights
 *     are multiplied by sqrt(model's width / shape's width), and its epsilon by
 *     the square of this factor.
 *   - Heads: query head r of the model's group g (the query heads that share a
 *     KV head) becomes query head r of the shape's group g. The rotated pairs
 *     of a head become the pairs of the wider head that have the same
 *     frequency. Queries are multiplied by sqrt(shape's head size / model's
 *     head size), because attention divides by the root of the head size.
 *   - Depth: the model's layers are spread over the layers of the shape; the
 *     layers between them add nothing.
 *   - Vocabulary: tokens that the model lacks must not become likely, as they
 *     would with output rows of zeros. So one additional element of the state
 *     is a small constant for all tokens of the model, and very negative in the
 *     output rows of tokens that the model lacks. All logits of the model's own
 *     tokens rise by the same negligible amount. There is no such element if
 *     the shape has no more tokens than the model.
 *   - Experts: if the shape has experts, each expert is the model's
 *     feed-forward network. Routers are random, so the experts of a token vary.
 *     The factors that the router gives to a token's experts are divided by
 *     their sum, so the choice of experts changes the output only by rounding.
 *     The architecture is always llama, as in Mixtral, because norms of queries
 *     and keys and a shared expert would change the output.
 *
 * All results equal those of the model except for rounding: queries and norms
 * are rounded if their factors are not powers of two. The functions are not
 * thread-safe, because they use the buffer grown.row.
 */
#ifndef HOST_CONVERT_SYNTH_GROWN_H
#define HOST_CONVERT_SYNTH_GROWN_H

#include "host/convert/synth_parts.h"
#include "host/model/shapes.h"

#include <stdbool.h>

struct err;

struct grown {
	struct model *model;
	/* the larger shape, but with the model's context length, RoPE
	 * parameters and norm epsilon */
	struct shape shape;
	/* factor applied to the weights of norms: sqrt(model's width / shape's
	 * width) */
	float norm;
	float *row; /* buffer for a row of any matrix of the model */
};

/*
 * Open the model and check that it can be grown into the shape. If the shape
 * has no name, use the model's shape, with n_expert and n_used of the given
 * shape. Returns 0, or -EINVAL with the reason in the message: a dimension of
 * the model is larger than in the shape, or the shape cannot represent a
 * property of the model.
 */
int grown_open(
	struct grown *, const char *path, const struct shape *, struct err *);
void grown_close(struct grown *);

/* Return the type of the model's matrices, or Q8_0 if this type cannot be
 * written. */
enum dtype grown_type(const struct grown *);

/* Write row `row` of a tensor of the shape to out[cols]; a vector has only row
 * 0. If the whole row is zero, returns false and leaves `out` unchanged. */
bool grown_row(
	struct grown *, const struct synth_part *, uint32_t row, float *out);

#endif
