/*
 * Cost model for a pass of a streamed model on a phone, computed from shapes
 * alone, without running a model. The cost model schedules layers one by one,
 * each as a flash read and a request to the NPU, with the same timeline
 * functions as a session (host/npu/phone.h). A cycle is a pass, its logits and
 * the drafting of the next tree. Four cycles are simulated, because the fourth
 * takes as long as the third. The result is the cost of the fourth cycle.
 *
 * A session that runs one model but is priced as another shape (--as) can give
 * a different cost for two reasons. One request of the session can stand for
 * several layers of the shape, so the session has fewer requests than the shape
 * has layers, and the waiting times differ. The session also charges cache
 * maintenance. Apart from these two differences, the cost model and the session
 * give the same cost. The functions have no state, allocate no memory, and may
 * be called on any thread.
 */
#ifndef HOST_SESSION_PASS_PRICE_H
#define HOST_SESSION_PASS_PRICE_H

#include "host/model/shape_type.h"
#include "tensor/layout.h"
#include "tensor/soc/price_layer.h"

#include <stdint.h>

struct shape;
struct soc;

/* Describe a layer of a shape for the functions of price_layer.h. The layer's
 * matrices have the given types and layout. Rows are quantized and exponentials
 * are computed in f32, as with the default precision. */
struct price_layer pass_price_layer(
	const struct shape *, struct shape_type, enum layout);

struct pass_ask {
	const struct soc *soc;
	const struct shape *target;
	/* the draft model; NULL if drafting costs nothing */
	const struct shape *draft;
	struct shape_type type; /* types of the matrices: Q4_0, Q8_0 or F16 */
	/* share of the layers that stay in memory, 0 to 1 */
	double resident;
	/* number of groups of resident layers (residency.h) */
	uint32_t runs;
	/* number of layers that may be read ahead, 2 to 16 */
	uint32_t slots;
	/* number of positions that the last row attends to */
	uint32_t seen;
	/* number of rows that the target model verifies in a pass */
	double rows;
	/* number of these rows that are also computed in the upper half of the
	 * layers; the other rows are dropped before that half */
	double upper_rows;
	/* number of tree nodes that the draft model expands, one after the
	 * other */
	double drafted;
	/* number of accepted tokens; logits are computed for each of them */
	double length;
};

/* All times are in seconds per cycle. */
struct pass_terms {
	/* busy times. read: of flash. npu: of the NPU. draft, logits: of the
	 * CPU for drafting, and for logits. */
	double read, npu, draft, logits;
	/* time that overlap saves: the sum of `read`, `npu`, `draft` and
	 * `logits`, minus `total` */
	double hidden;
	/* time that a perfect overlap would save in addition: `total` minus the
	 * longer of `read` and the sum of `npu`, `draft` and `logits` */
	double lost;
	double total;
	double joules; /* energy, including the base power base_w */
};

/* Compute the cost. If `rows` or `upper_rows` is not an integer, the result is
 * interpolated between the costs for the two nearest integers. */
struct pass_terms pass_price(const struct pass_ask *);

#endif
