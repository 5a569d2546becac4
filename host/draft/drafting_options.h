/* The options that all drafters share. Any thread. */
#ifndef HOST_DRAFT_DRAFTING_OPTIONS_H
#define HOST_DRAFT_DRAFTING_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct drafting_options {
	const char *draft; /* NULL: the bundled draft model */
	int on_device;
	uint32_t batch;     /* nodes drafted together; 0: automatic */
	double temperature; /* of the draft's probabilities */
	uint32_t seed;      /* of the oracle */
	int as; /* index into `shapes` for the cost model; -1: none */
};
/* Defaults for a draft model on the host: rows of one pass, where a method
 * expands a whole tree level at once, and nodes at once where it weighs how
 * many to expand. */
#define DRAFT_TOGETHER 64
#define DRAFT_WEIGHED  8
extern const struct opt_table drafting_table;

#endif
