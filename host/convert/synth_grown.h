/*
 * Grows a model into a larger shape: its weights form a corner of the shape's
 * matrices, and the rest is zero, so that the larger model computes and
 * generates the same as the smaller one, at the cost of its own shape. Then
 * both the acceptance of drafts and the cost of a pass are realistic.
 *
 *   - Width: the states beyond the model's are zero. A norm divides by the
 *     root
 *     of a mean over more states, so its weights are multiplied by
 *     sqrt(model's width / shape's), and its epsilon by the square of that.
 *   - Heads: query head r of group g is head r of group g. A head's rotated
 *     pairs become the pairs of the wider head with the same frequency;
 *     queries are multiplied by sqrt(shape's head / model's), since attention
 *     divides by the root of the head size.
 *   - Depth: the model's layers are spread over the shape's; those in between
 *     add nothing.
 *   - Vocabulary: tokens beyond the model's must not be likely, as rows of
 *     zeros would make them. One additional state is a small constant in all
 *     tokens, and is very negative in the rows of tokens that the model lacks.
 *     All of the model's own logits rise by the same, negligible amount.
 *
 * All numbers are those of the model up to rounding, of queries if the factor
 * is no power of two, and of norms likewise. Read-only after opening.
 */
#ifndef HOST_CONVERT_SYNTH_GROWN_H
#define HOST_CONVERT_SYNTH_GROWN_H

#include "host/convert/synth_parts.h"
#include "host/model/shapes.h"

#include <stdbool.h>

struct err;
struct gguf;

struct grown {
	struct model *model;
	struct shape shape; /* with context, rope and norms of the model */
	float *row;         /* as wide as the model's widest row */
};

/*
 * -EINVAL with the reason: a dimension of the model is larger than the shape's,
 * or the shape cannot express a property of the model.
 */
int grown_open(
	struct grown *, const char *path, const struct shape *, struct err *);
void grown_close(struct grown *);

const struct gguf *grown_gguf(const struct grown *);

/* The type of the model's matrices; Q8_0 if that cannot be written. */
enum dtype grown_type(const struct grown *);

/*
 * Row `row` of a tensor of the shape: out [cols]. False: it is all zero, and
 * `out` is unchanged. A vector is row 0.
 */
bool grown_row(
	struct grown *, const struct synth_part *, uint32_t row, float *out);

#endif
