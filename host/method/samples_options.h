/* What is asked of methods that generate many samples. Any thread. */
#ifndef HOST_METHOD_SAMPLES_OPTIONS_H
#define HOST_METHOD_SAMPLES_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

#define SAMPLES_MOST     1024 /* that may be asked for */
#define SAMPLES_PARALLEL 64   /* in a pass, at most (ROWS_SEQUENCES) */

/* What is asked by -N, --parallel ...: of all methods of samples. */
struct samples_options {
	uint32_t n, parallel;
	uint32_t slots; /* of the cache for all; 0: as many as they need */
	const char *step_end; /* text that ends a step */
};
extern const struct opt_table samples_table;

/* How the scores of steps give the value of a text. */
enum aggregate { AGGREGATE_LAST, AGGREGATE_MIN, AGGREGATE_PROD };
extern const char *const aggregate_names[]; /* NULL-terminated */

#endif
