/*
 * tandem bench methods: a user's own comparison. Each method runs with the
 * given options, and again with every set of options that applies to it, on the
 * same prompts; the first row is the baseline. An experiment
 * (host/bench/experiment.h). One thread.
 */
#ifndef HOST_BENCH_BENCH_METHODS_H
#define HOST_BENCH_BENCH_METHODS_H

#include "host/api/options.h"
#include "host/bench/bench_run.h"
#include "host/bench/sets.h"

#include <stdbool.h>

struct err;

#define METHODS_MAX 16

struct methods_args {
	struct bench_options run;
	struct method_facts method[METHODS_MAX];
	unsigned n_methods;
	const struct sets *sets;
};

/*
 * Measure and print the report; -ECANCELED when interrupted. -EINVAL for
 * contradictory options: an unknown option or value, a set that applies to none
 * of the methods, methods of diffusion models beside others with one model for
 * all, a phone's clock beside the wall's. With check_only only these are
 * checked, and no model is opened.
 */
int bench_methods(const struct methods_args *, bool check_only, struct err *);

#endif
