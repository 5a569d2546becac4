/* Options of methods that generate many samples. Any thread. */
#ifndef HOST_METHOD_SAMPLES_OPTIONS_H
#define HOST_METHOD_SAMPLES_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

#define SAMPLES_MOST     1024 /* largest -N */
#define SAMPLES_PARALLEL 64   /* of a pass, at most (ROWS_SEQUENCES) */

/* -N, --parallel and others, for all methods with many samples. */
struct samples_options {
	uint32_t n, parallel;
	/* cache slots for all samples; 0: as many as they need */
	uint32_t slots;
	const char *step_end; /* text that ends a step */
};
extern const struct opt_table samples_table;

/* How the value of a text follows from the scores of its steps. */
enum aggregate { AGGREGATE_LAST, AGGREGATE_MIN, AGGREGATE_PROD };
extern const char *const aggregate_names[]; /* NULL-terminated */

#endif
