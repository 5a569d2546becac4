/*
 * tandem bench methods: compares methods that the user chooses. Each method
 * runs with the given options, and again with every set of options that applies
 * to it. All runs use the same prompts; the first row of the table is the
 * baseline. The benchmark is an experiment (host/bench/experiment.h).
 * Single-threaded.
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
 * Measure and print the report. If `check_only`, only check the options and
 * open no model.
 *
 * Returns 0 on success or -ECANCELED if interrupted. Returns -EINVAL for
 * contradictory options: an unknown option or value, a set of options that
 * applies to none of the methods, one model given for both diffusion methods
 * and other methods, or a phone's clock in one row and the wall clock in
 * another.
 */
int bench_methods(const struct methods_args *, bool check_only, struct err *);

#endif
