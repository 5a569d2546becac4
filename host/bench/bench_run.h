/*
 * What all experiments on a pair have in common: their options, setup,
 * measurement, and the report of their tables as text, JSON, CSV and pictures.
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
	const struct opt_values *options; /* of run_option_tables */
	/* file of prompts, or "-" for standard input; NULL: tasks */
	const char *prompts;
	const char *task[FIGURES_TASKS];
	unsigned n_tasks; /* 0: pseudo-random prompts, EOS ignored */
	/* the first items of each task, or of the file; 0: all */
	uint32_t items;
	unsigned rounds; /* 0: 3 on the wall clock, 1 on a phone's */
	enum bench_form form;
	/* folder for pictures; NULL: none */
	const char *plot;
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;
	/* The shard to measure, if there is more than one. Its report is a JSON
	 * object with all that a merge needs; `arguments` are the command line,
	 * which shards must share. */
	struct shard shard;
	json_t *arguments;
	/* report these instead of measuring; NULL: measure */
	const struct shards *merged;
};

struct bench_run {
	const struct bench_options *opts;
	const char *clock; /* phone profile; NULL: the wall clock */
	uint32_t n_predict;
	struct pair_runner pair;
	struct runner runner;
	struct bench_items items;
	struct experiment x;
};

/* Opens nothing. The run must not move, and is released in any case. */
void bench_run_set_up(struct bench_run *, const struct bench_options *);
/* Check before hours of measuring that pictures can be drawn, and load the
 * items. -errno. */
int bench_run_prepare(struct bench_run *, struct err *);
/* Measure all planned runs, or take the results from the shards. */
int bench_run_measure(struct bench_run *, struct err *);
void bench_run_release(struct bench_run *);

const char *bench_run_clock(const struct bench_run *); /* the name, or "wall" */

/* The parts of a report that differ by benchmark; `json` returns an object, or
 * NULL: no memory. */
struct bench_words {
	void (*text)(const void *arg, const struct bench_table *, unsigned n);
	void (*csv)(const void *arg, const struct bench_table *, unsigned n);
	json_t *(*json)(
		const void *arg, const struct bench_table *, unsigned n);
	const void *arg;
	const char *model; /* for captions */
	bool simulated;    /* acceptance is simulated */
};

/* Print the report in the requested form, then draw the pictures. */
int bench_run_report(const struct bench_run *, const struct bench_words *,
	const struct bench_table *, unsigned n, struct err *);

/* The report of a benchmark that consists of its tables alone. */
struct bench_name {
	const char *name, *title; /* "sdnpu", "Retrieval speculation" */
	/* which texts were compared: "by every row" */
	const char *checked;
};
int bench_run_report_tables(const struct bench_run *, const struct bench_name *,
	const struct bench_table *, unsigned n, struct err *);

#endif
