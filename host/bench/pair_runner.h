/*
 * Runs of an experiment on a pair: for each setting what was asked is changed
 * as it says, the model, the method and the drafts are opened, and prompts are
 * decoded greedily. Prompts, and what the drafts make of them, are not counted:
 * the decode phase goes from the first token to the last; from the beginning
 * where many tokens come at a time. Where layers are streamed it begins and
 * ends with all slots full, so that each pass is charged for what it reads.
 *
 * Options that a setting's method has no use for are left out, so that methods
 * with drafts and without can be asked for together. One thread.
 */
#ifndef HOST_BENCH_PAIR_RUNNER_H
#define HOST_BENCH_PAIR_RUNNER_H

#include "base/opt.h"
#include "base/progress.h"
#include "host/bench/bench_trace.h"

#include <limits.h>
#include <signal.h>

struct bench_items;
struct bench_read;
struct err;
struct runner;
struct setting;
struct tandem;

#define PAIR_PRICED    2048
#define PAIR_UNCOUNTED 160

struct pair_runner {
	struct opt_values asked; /* of asked_tables */
	const struct bench_items *items;
	/* Measured again before each item of a run that streams its layers, and
	 * then what its bytes would have taken is counted; NULL: it is not. */
	struct bench_read *plain;
	double fastest; /* bytes/s that it ever was */
	/* Why the system's count of reads was not compared; "". */
	char uncounted[PAIR_UNCOUNTED];
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;       /* told of loading */
	struct bench_trace trace;
	/* Of the first run that had one, for reports. */
	char model[PATH_MAX], draft[PATH_MAX];
	/* What is priced in place of what runs (struct tandem_report): of all
	 * runs that say so, each once, with " | " between; "" of none. */
	char priced[PAIR_PRICED];
};

/* Borrows the runner's arguments. */
struct runner pair_runner(struct pair_runner *);

/* A handle as a setting asks for it, which has opened nothing; *asked holds the
 * options, and outlives the handle. -EINVAL for what cannot be meant. */
int pair_create(const struct pair_runner *, const struct setting *,
	struct opt_values *asked, struct tandem **out, struct err *);
/* And its model and other files, without starting the pair. */
int pair_open_model(const struct pair_runner *, const struct setting *,
	struct opt_values *asked, struct tandem **out, struct err *);

/* For reports: the files that a handle has open, and what is priced. */
void pair_note(struct pair_runner *, const struct tandem *);

#endif
