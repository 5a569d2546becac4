/*
 * Options of a run: those of the decoder (host/api/options.h), the model, and
 * the largest length of an output. A setting of an experiment changes some of
 * them by name.
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
	const char *model;  /* NULL: the bundled model */
	uint32_t n_predict; /* most tokens of an output */
};
extern const struct opt_table run_table;

/* Apply a setting's changes. -EINVAL names the option. The values borrow from
 * the setting. */
int run_options_change(
	struct opt_values *, const struct setting *, struct err *);

/* Whether a method uses the option of that name; -EINVAL, with a similar name,
 * for an unknown one. */
int run_option_applies(
	const char *method, const char *name, bool *is, struct err *);

/* Whether the option of that name differs from its default. */
bool run_option_is_set(const struct opt_values *, const char *name);

/* Values: the method, the phone's clock or NULL for the wall clock, and the
 * value of --draft. */
const char *run_options_clock(const struct opt_values *);
const char *run_options_draft(const struct opt_values *);

#endif
