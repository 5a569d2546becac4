/*
 * Runs of an experiment on a pair of host and device: for each setting the
 * user's options are changed, model, method and drafts are opened, and prompts
 * are decoded greedily. The prompt phase is not counted: the decode phase goes
 * from the first token to the last; for methods that emit many tokens at a
 * time, from the beginning. If layers are streamed the phase begins and ends
 * with all slots full, so that each pass is charged for the bytes it uses.
 *
 * Options that a setting's method does not use are dropped, so that methods
 * with and without drafts can be compared. One thread.
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
	struct opt_values values; /* the user's values of run_option_tables */
	const struct bench_items *items;
	/* Measured again before each item of a run that streams its layers, to
	 * count the time that a plain reader needs; NULL: not counted. */
	struct bench_read *plain;
	double fastest; /* highest bytes/s measured */
	/* Why the kernel's count of reads was not compared; "" if it was. */
	char uncounted[PAIR_UNCOUNTED];
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;       /* called while files load */
	struct bench_trace trace;
	/* Names from the first run that has them, for reports. */
	char model[PATH_MAX], draft[PATH_MAX];
	/* The shapes priced in place of the models that run (struct
	 * tandem_report), each once, with " | " between them; "" if none. */
	char priced[PAIR_PRICED];
};

/* Borrows the runner's arguments. */
struct runner pair_runner(struct pair_runner *);

/* Create a handle for a setting, without opening files; *asked gets the options
 * and must outlive the handle. -EINVAL for contradictory options. */
int pair_create(const struct pair_runner *, const struct setting *,
	struct opt_values *values, struct tandem **out, struct err *);
/* The same, and open the model and the other files, without starting the
 * pair. */
int pair_open_model(const struct pair_runner *, const struct setting *,
	struct opt_values *values, struct tandem **out, struct err *);

/* Note the names of a handle's open files and its priced shape for reports. */
void pair_note(struct pair_runner *, const struct tandem *);

#endif
