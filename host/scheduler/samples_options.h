/* Options of methods that generate many samples. The tables of this header do
 * not change, so any thread may read them. */
#ifndef HOST_SCHEDULER_SAMPLES_OPTIONS_H
#define HOST_SCHEDULER_SAMPLES_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

#define SAMPLES_MOST     1024 /* largest value of -N */
#define SAMPLES_PARALLEL 64   /* largest --parallel; not above ROWS_SEQUENCES */

/* Options -N, --parallel, --slots, --step-end and --step-tokens, for all
 * methods with many samples. */
struct samples_options {
	uint32_t n, parallel;
	/* cache slots for all samples together; 0 means as many as they need */
	uint32_t slots;
	const char *step_end; /* text that ends a step */
	/* number of tokens after which a step ends without `step_end`; 0: no
	 * limit */
	uint32_t step_tokens;
};
extern const struct opt_table samples_table;

/* How the scores of a text's steps are combined into the value of the text: the
 * last score, the smallest score, or the product of all scores. */
enum aggregate { AGGREGATE_LAST, AGGREGATE_MIN, AGGREGATE_PROD };
extern const char *const aggregate_names[]; /* NULL-terminated */

#endif
