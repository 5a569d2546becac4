/*
 * What can be asked of a run: all that can be asked of a decoder
 * (host/api/options.h), and its model and how long an output may be. A set of
 * values says it, and a setting of an experiment changes some of them by name.
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
	const char *model;  /* NULL: what comes with the program */
	uint32_t n_predict; /* tokens of an output at most */
};
extern const struct opt_table run_table;

/* The decoder's tables and run_table (an opt_tables). */
const struct opt_table *asked_tables(size_t i);

/* -EINVAL names the option and its change. Borrows from the setting. */
int asked_change(struct opt_values *, const struct setting *, struct err *);

/* Whether a method has a use for the option of that name; of a name that is
 * none -EINVAL, with one that may be meant. */
int asked_is_for(const char *method, const char *name, bool *is, struct err *);

/* Whether the option of that name has another value than its default. */
bool asked_is_said(const struct opt_values *, const char *name);

/* What is asked: the method there is, the phone's clock or NULL for the wall's,
 * and what --draft says. */
const char *asked_clock(const struct opt_values *);
const char *asked_draft(const struct opt_values *);

#endif
