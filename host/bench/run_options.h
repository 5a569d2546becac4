/*
 * Options of a run: the options of the decoder (host/api/options.h), the model,
 * and the maximum length of an output. A setting of an experiment changes some
 * of these options by name.
 */
#ifndef HOST_BENCH_RUN_OPTIONS_H
#define HOST_BENCH_RUN_OPTIONS_H

#include "base/opt.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct setting;

#define ASKED_PREDICT 128

struct run_options {
	const char *model; /* NULL means the bundled model */
	/* maximum number of tokens that an item generates */
	uint32_t n_predict;
};
extern const struct opt_table run_table;

/* Apply the changes of a setting to the option values. The values then point
 * into the setting, which must outlive them. Returns 0 on success, or -EINVAL
 * if a change is not valid; the message names the option. */
int run_options_change(
	struct opt_values *, const struct setting *, struct err *);

/* Set *is to whether `method` uses the option `name`. Returns 0 on success, or
 * -EINVAL if there is no such option; the message then suggests a similar
 * name. */
int run_option_applies(
	const char *method, const char *name, bool *is, struct err *);

/* Whether option `name` differs from its default. */
bool run_option_is_set(const struct opt_values *, const char *name);

/* run_options_clock returns the value of --clock, or NULL for the wall clock.
 * run_options_draft returns the value of --draft. */
const char *run_options_clock(const struct opt_values *);
const char *run_options_draft(const struct opt_values *);

#endif
