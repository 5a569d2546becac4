/* The options that all drafters share. Any thread. */
#ifndef HOST_DRAFT_DRAFTING_OPTIONS_H
#define HOST_DRAFT_DRAFTING_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct drafting_options {
	const char *draft; /* NULL: the model that comes with the program */
	int on_device;
	uint32_t batch;     /* nodes drafted together; 0: chosen */
	double temperature; /* of the draft's probabilities */
	uint32_t seed;      /* of the oracle */
	int as; /* index into shapes that a draft model is priced as; -1 */
};
/* Chosen on the host: rows of a pass, where a layer of a tree is asked at once,
 * and nodes where it is weighed how many there should be. */
#define DRAFT_TOGETHER 64
#define DRAFT_WEIGHED  8
extern const struct opt_table drafting_table;

#endif
