/*
 * Runs the settings of an experiment on a host and a device process. For each
 * setting, the runner applies the changes to the user's options, opens the
 * model, the method and the drafts, and decodes the prompts greedily.
 *
 * Only the decode phase is counted. The decode phase goes from the first token
 * of the output to the last. If a method emits many tokens at once, the decode
 * phase starts before the prompt instead. If layers are streamed from flash,
 * all layer slots (buffers for layers) are full at the start and at the end of
 * the decode phase. So the bytes that are read during the decode phase are
 * exactly the bytes that its passes use.
 *
 * Options that the method of a setting does not use are dropped, so that
 * methods with and without drafts can be compared. Single-threaded.
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

#define PAIR_PRICED    1024
#define PAIR_UNCOUNTED 160

struct pair_runner {
	/* the values that the user has given to the options of a run */
	struct opt_values values;
	const struct bench_items *items;
	/*
	 * Speed of a plain reader (a program that only reads the layers:
	 * bench_read.h). The speed is measured again before each item of a run
	 * that streams its layers, because the speed of storage varies. NULL
	 * means that the time of a plain reader is not counted.
	 */
	struct bench_read *plain;
	double fastest; /* highest speed of the plain reader, in bytes/s */
	/* why the kernel's count of reads was not compared; "" if it was
	 * compared */
	char uncounted[PAIR_UNCOUNTED];
	/* when set, the run ends early with -ECANCELED */
	const volatile sig_atomic_t *cancel;
	struct progress_sink progress; /* reports the loading of files */
	struct bench_trace trace;
	/* File names for reports, from the first run that has such a file. */
	char model[PATH_MAX], draft[PATH_MAX];
	/*
	 * The texts priced_as (struct tandem_report) of all settings, which
	 * name the model shapes for which costs are computed. Each text appears
	 * once; " | " separates the texts, and "..." stands for texts that do
	 * not fit. "" if no setting has such a text.
	 */
	char priced[PAIR_PRICED];
};

/* Return a runner that uses the given pair_runner, which must outlive the
 * runner. */
struct runner pair_runner(struct pair_runner *);

/* Create a library handle (struct tandem) for a setting, without opening files.
 * Stores the options in *values, which must outlive the handle. Returns 0 on
 * success, -EINVAL for contradictory options, or another negative errno. */
int pair_create(const struct pair_runner *, const struct setting *,
	struct opt_values *values, struct tandem **out, struct err *);
/* Call pair_create(), then open the model and the other files, without starting
 * the device process. */
int pair_open_model(const struct pair_runner *, const struct setting *,
	struct opt_values *values, struct tandem **out, struct err *);

/* Record, for reports, the names of the files that the handle has opened, and
 * its text priced_as. */
void pair_note(struct pair_runner *, const struct tandem *);

#endif
