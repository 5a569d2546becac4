/*
 * What a pass of a streamed model costs on a phone, by its terms and from
 * shapes alone: nothing runs. Layer by layer, each a read and a request, on a
 * timeline as a session has it (host/npu/phone.h), in the steady state: cycles
 * of a pass, its logits and the drafting of the next tree are laid one behind
 * the other until one is like the last.
 *
 * What runs priced as another shape (--as) has fewer and larger layers to wait
 * for, and costs the maintenance of its caches besides; else it is the same. No
 * state, no allocation, any thread.
 */
#ifndef HOST_SESSION_PASS_PRICE_H
#define HOST_SESSION_PASS_PRICE_H

#include "tensor/dtype.h"

#include <stdint.h>

struct shape;
struct soc;

struct pass_ask {
	const struct soc *soc;
	const struct shape *target;
	const struct shape *draft; /* NULL: drafting is free */
	enum dtype type;           /* of all matrices: Q4_0, Q8_0 or F16 */
	double resident;           /* share of the layers in memory, 0 to 1 */
	uint32_t runs;             /* that they lie in (residency.h) */
	uint32_t slots;            /* layers that may be read ahead, 2 .. 16 */
	uint32_t seen;             /* positions that the last row sees */
	double rows;               /* verified */
	double upper_rows;         /* of them, in the upper half of layers */
	double drafted;            /* nodes looked behind, one by one */
	double length; /* tokens that come of it, and rows of logits */
};

/* Seconds of a cycle. */
struct pass_terms {
	double read, npu, draft, logits; /* of flash, NPU, CPU and CPU */
	double hidden;                   /* of these, done beside others */
	/* That the cycle takes beyond the longer of reading and all else: what
	 * a better schedule could hide. */
	double lost;
	double total;
	double joules; /* base_w included */
};

/* Counts that are no whole numbers are between the two whole ones. */
struct pass_terms pass_price(const struct pass_ask *);

#endif
