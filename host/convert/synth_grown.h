/*
 * A model grown into a larger shape: its weights are a corner of the shape's
 * matrices and the rest is zero, so that the larger model computes what the
 * smaller one does and says what it says, at the price of its own shape.
 * Acceptance of drafts is then real, and so is what a pass costs.
 *
 *   - Width: the states beyond the model's are zero. A norm divides by the root
 *     of a mean over more of them, so its weights are multiplied by
 *     sqrt(model's width / shape's), and its epsilon by the square of it.
 *   - Heads: query head r of group g is head r of group g. A head's rotated
 *     pairs are those of the wider head that turn as fast; queries are
 *     multiplied by sqrt(shape's head / model's), since attention is divided by
 *     the root of a head's size.
 *   - Depth: the model's layers are spread over the shape's; those between add
 *     nothing.
 *   - Vocabulary: tokens beyond the model's must not be likely, where rows of
 *     zeros would be. One more state is a small constant in all tokens, and
 *     the rows of those that the model lacks are very negative there. All of
 *     the model's own logits rise by the same, which is next to nothing.
 *
 * All are the same numbers as in the model but for rounding: of queries where
 * the factor is no power of two, and of norms likewise. Read-only after
 * opening.
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
	struct shape shape; /* its context, rope and norms are the model's */
	float *row;         /* as wide as any of the model's */
};

/*
 * -EINVAL with what does not fit: a side of the model that is larger than the
 * shape's, or something the one has and the other cannot express.
 */
int grown_open(
	struct grown *, const char *path, const struct shape *, struct err *);
void grown_close(struct grown *);

const struct gguf *grown_gguf(const struct grown *);

/* Of the model's matrices; Q8_0 should nobody be able to write that. */
enum dtype grown_type(const struct grown *);

/*
 * Row `row` of a tensor of the shape: out [cols]. False: all of it is zero, and
 * `out` is left alone. A vector is row 0.
 */
bool grown_row(
	struct grown *, const struct synth_part *, uint32_t row, float *out);

#endif
