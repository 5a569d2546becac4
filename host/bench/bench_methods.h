/*
 * tandem bench methods: a comparison of a user's own. Methods, each as asked
 * and once more under every set of options that means something to it, on the
 * same prompts; the first is the yardstick. An experiment
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
	struct bench_asked run;
	struct method_facts method[METHODS_MAX];
	unsigned n_methods;
	const struct sets *sets;
};

/*
 * Measure and tell; -ECANCELED when interrupted. -EINVAL for what cannot be
 * meant: an option that is none or has no such value, a set that means nothing
 * to any of the methods, methods of diffusion models beside others with one
 * model for all, a phone's clock beside the wall's. With check_only that is
 * all, and no model is opened.
 */
int bench_methods(const struct methods_args *, bool check_only, struct err *);

#endif
