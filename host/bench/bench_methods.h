/*
 * tandem bench methods: a comparison of a user's own. Methods, each as asked
 * and once more under every set of options that means something to it, on the
 * same prompts; the first is the yardstick. An experiment
 * (host/bench/experiment.h). One thread.
 */
#ifndef HOST_BENCH_BENCH_METHODS_H
#define HOST_BENCH_BENCH_METHODS_H

#include "base/opt.h"
#include "base/progress.h"
#include "host/bench/bench_report.h"
#include "host/bench/figures.h"
#include "host/bench/sets.h"

#include <signal.h>
#include <stdint.h>

struct err;
struct method;

#define METHODS_MAX 16

struct methods_args {
	const struct opt_values *asked; /* of asked_tables */
	const struct method *method[METHODS_MAX];
	unsigned n_methods;
	const struct sets *sets;
	const char *prompts; /* a file of them, or "-"; NULL: */
	const char *task[FIGURES_TASKS];
	unsigned n_tasks; /* 0: pseudo-random prompts, EOS ignored */
	uint32_t items;   /* the first of each task, or of the file; 0: all */
	unsigned rounds;  /* 0: 3 of the wall clock, 1 of a phone's */
	enum bench_form form;
	const char *plot;                    /* folder; NULL: none */
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;
};

/*
 * -EINVAL for what cannot be meant: an option that is none or has no such
 * value, a set that means nothing to any of the methods, methods of diffusion
 * models beside others with one model for all, a phone's clock beside the
 * wall's. Opens no model.
 */
int bench_methods_check(const struct methods_args *, struct err *);

/* Measure and tell; -ECANCELED when interrupted. */
int bench_methods(const struct methods_args *, struct err *);

#endif
