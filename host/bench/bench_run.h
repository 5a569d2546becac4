/*
 * The common part of all experiments that run models on a host and a device
 * process: options, setup, measurement, and the report of the tables as text,
 * JSON, CSV and pictures.
 */
#ifndef HOST_BENCH_BENCH_RUN_H
#define HOST_BENCH_BENCH_RUN_H

#include "base/opt.h"
#include "base/progress.h"
#include "host/bench/bench_items.h"
#include "host/bench/bench_report.h"
#include "host/bench/experiment.h"
#include "host/bench/figures.h"
#include "host/bench/pair_runner.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_table;
struct err;

struct bench_options {
	/* values of the options of a run (run_options.h) */
	const struct opt_values *options;
	/* file of prompts, or "-" for standard input; NULL means that the
	 * prompts come from tasks */
	const char *prompts;
	const char *task[FIGURES_TASKS];
	/* number of tasks; 0 means pseudo-random prompts, with EOS ignored */
	unsigned n_tasks;
	/* number of items used from the start of each task or of the file; 0
	 * means all */
	uint32_t items;
	/* number of rounds; 0 means 3 rounds on the wall clock, 1 round on a
	 * phone's clock */
	unsigned rounds;
	enum bench_form form;
	/* folder for pictures; NULL means no pictures */
	const char *plot;
	/* when set, the benchmark ends early with -ECANCELED */
	const volatile sig_atomic_t *cancel;
	struct progress_sink progress;
	/* The shard (part of the items) to measure. If there is more than one
	 * shard, the report is a JSON object with all data that a merge needs.
	 * `arguments` is the command line, which all shards of a merge must
	 * share. */
	struct shard shard;
	json_t *arguments;
	/* report these shards instead of measuring; NULL means measure */
	const struct shards *merged;
};

struct bench_run {
	const struct bench_options *opts;
	const char *clock; /* phone profile; NULL means the wall clock */
	uint32_t n_predict;
	struct pair_runner pair;
	struct runner runner;
	struct bench_items items;
	struct experiment x;
};

/* Initialize a run without opening any file. The run must not move in memory
 * afterwards, and must be released with bench_run_release() even if a later
 * call fails. */
void bench_run_set_up(struct bench_run *, const struct bench_options *);
/* Load the items, and check that pictures can be drawn, before hours of
 * measuring. Returns 0 or a negative errno. */
int bench_run_prepare(struct bench_run *, struct err *);
/* Measure all planned runs or, if opts->merged is set, take the results from
 * its shards. Returns 0 or a negative errno. */
int bench_run_measure(struct bench_run *, struct err *);
void bench_run_release(struct bench_run *);

/* returns the value of --clock, such as "soc:sd8gen3", or "wall" */
const char *bench_run_clock(const struct bench_run *);

/* The parts of a report that differ between benchmarks. */
struct bench_words {
	/* name and title of the benchmark, such as "sdnpu" and "Retrieval
	 * speculation" */
	const char *name, *title;
	/* the end of the report's line "checked: the same text ...", such as
	 * "in every row" */
	const char *checked;
	/* Prints the text report. The lines that name the model shapes for
	 * which costs were computed have been printed before
	 * (report_print_priced). NULL means that the title, the tables and the
	 * number of compared texts are printed. */
	void (*text)(const void *arg, const struct bench_table *, unsigned n);
	/* Prints the CSV lines of this benchmark. They follow the lines
	 * priced_as and simulated_acceptance and precede the lines of the
	 * tables. NULL means that the numbers of successful checks are printed
	 * there. */
	void (*csv)(const void *arg);
	/* Returns the JSON report, or NULL if out of memory. If `json` is NULL,
	 * the report has only the members that all benchmarks have. */
	json_t *(*json)(
		const void *arg, const struct bench_table *, unsigned n);
	const void *arg;
	/* name of the model for captions of pictures; NULL means the model that
	 * ran first */
	const char *model;
	/* whether the benchmark drafts tokens: CSV and JSON then report the
	 * value of `simulated`, and JSON also names the draft model */
	bool drafts;
	/* whether the acceptance of drafted tokens is simulated */
	bool simulated;
};

/* Print the report in the requested form, then draw the pictures. Returns 0 or
 * a negative errno. */
int bench_run_report(const struct bench_run *, const struct bench_words *,
	const struct bench_table *, unsigned n, struct err *);

#endif
