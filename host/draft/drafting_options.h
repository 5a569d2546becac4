/* The options that all drafters share. drafting_table never changes, so any
 * thread may read it. */
#ifndef HOST_DRAFT_DRAFTING_OPTIONS_H
#define HOST_DRAFT_DRAFTING_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct drafting_options {
	const char *draft; /* NULL means model+sam */
	int on_device;
	/* number of nodes that a draft model computes together; 0 means a
	 * default, which differs between host and device */
	uint32_t batch;
	double temperature; /* applied to the draft model's probabilities */
	uint32_t seed;      /* seed of the oracle (drafter_oracle.h) */
	/* index into `shapes` of the shape from which the draft model's cost is
	 * computed; -1 for the draft model's own shape */
	int as;
};
/* Default number of nodes that a draft model on the host computes together
 * (`batch`). DRAFT_TOGETHER is for methods that expand a whole tree level in
 * one pass; DRAFT_WEIGHED is for methods that weigh the cost of expanding more
 * nodes against the expected number of additional accepted tokens. */
#define DRAFT_TOGETHER 64
#define DRAFT_WEIGHED  8
extern const struct opt_table drafting_table;

#endif
