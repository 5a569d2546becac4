/*
 * What benchmarks that run an experiment on a pair have in common: what is
 * asked of each, how it is set up, and that its tables are told as text, JSON
 * or CSV, and drawn.
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

struct bench_asked {
	const struct opt_values *options; /* of asked_tables */
	const char *prompts;              /* a file of them, or "-"; NULL: */
	const char *task[FIGURES_TASKS];
	unsigned n_tasks; /* 0: pseudo-random prompts, EOS ignored */
	uint32_t items;   /* the first of each task, or of the file; 0: all */
	unsigned rounds;  /* 0: 3 of the wall clock, 1 of a phone's */
	enum bench_form form;
	const char *plot;                    /* folder; NULL: none */
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;
	/* Of which `arguments` are the command line: told as JSON, with what
	 * others want to make one of all. */
	struct shard shard;
	json_t *arguments;
	const struct shards *merged; /* in place of measuring; NULL: measure */
};

struct bench_run {
	const struct bench_asked *asked;
	const char *clock; /* of a phone; NULL: the wall's */
	uint32_t n_predict;
	struct pair_runner pair;
	struct runner runner;
	struct bench_items items;
	struct experiment x;
};

/* Nothing is opened; the run stays where it is, and is released in any case. */
void bench_run_set_up(struct bench_run *, const struct bench_asked *);
/* What would stop it after hours of measuring: that pictures can be drawn, and
 * its items. -errno. */
int bench_run_prepare(struct bench_run *, struct err *);
/* All that is planned: measured, or what the shards found. */
int bench_run_measure(struct bench_run *, struct err *);
void bench_run_release(struct bench_run *);

const char *bench_run_clock(const struct bench_run *); /* "wall" for NULL */

/* In the benchmark's own words; `json` gives an object, or NULL: no memory. */
struct bench_words {
	void (*text)(const void *arg, const struct bench_table *, unsigned n);
	void (*csv)(const void *arg, const struct bench_table *, unsigned n);
	json_t *(*json)(
		const void *arg, const struct bench_table *, unsigned n);
	const void *arg;
	const char *model; /* below pictures */
	bool simulated;    /* acceptance is */
};

/* As asked for, then as pictures. */
int bench_run_report(const struct bench_run *, const struct bench_words *,
	const struct bench_table *, unsigned n, struct err *);

/* The words of a benchmark that has no more to say than its tables. */
struct bench_name {
	const char *name, *title; /* "sdnpu", "Retrieval speculation" */
	const char *checked;      /* what texts were compared: "by every row" */
};
int bench_run_report_tables(const struct bench_run *, const struct bench_name *,
	const struct bench_table *, unsigned n, struct err *);

#endif
