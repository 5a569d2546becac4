/*
 * Cost model for a pass of a streamed model on a phone, from shapes alone:
 * nothing is executed. Layers are scheduled one by one, each a read and a
 * request, on the same timeline as a session's (host/npu/phone.h), in the
 * steady state: cycles of a pass, its logits and the drafting of the next tree
 * follow one another until two are alike.
 *
 * A real run priced as another shape (--as) has fewer and larger layers to wait
 * for, and also pays for the maintenance of its caches; otherwise it agrees. No
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
	uint32_t runs;     /* runs of the resident layers (residency.h) */
	uint32_t slots;    /* layers that may be read ahead, 2 .. 16 */
	uint32_t seen;     /* positions that the last row attends to */
	double rows;       /* verified rows */
	double upper_rows; /* those in the upper half of the layers */
	double drafted;    /* expanded nodes, one by one */
	double length;     /* accepted tokens, each with a row of logits */
};

/* In seconds per cycle. */
struct pass_terms {
	double read, npu, draft, logits; /* of flash, NPU, CPU and CPU */
	double hidden;                   /* time in which these overlap */
	/* Time of the cycle beyond the longer of reading and all else: the most
	 * that a better schedule could hide. */
	double lost;
	double total;
	double joules; /* base_w included */
};

/* Fractional counts are interpolated between the two integers. */
struct pass_terms pass_price(const struct pass_ask *);

#endif
