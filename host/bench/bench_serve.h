/*
 * tandem bench serve: measures throughput and latency of servers with several
 * numbers of clients. The benchmark starts and measures `tandem serve` once for
 * each method, and also measures running servers (of any program with OpenAI's
 * API) at the given URLs. Single-threaded.
 */
#ifndef HOST_BENCH_BENCH_SERVE_H
#define HOST_BENCH_BENCH_SERVE_H

#include "base/progress.h"
#include "host/bench/figures.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SERVE_ROWS_MAX    16 /* maximum number of methods and URLs together */
#define SERVE_AT_MAX      5  /* maximum number of elements of `at` */
#define SERVE_CLIENTS_MAX 256

struct bench_serve_args {
	/*
	 * [n_rows] the first n_methods elements are names of methods (a server
	 * is started for each of them), the others are URLs of running servers
	 */
	const char *row[SERVE_ROWS_MAX];
	unsigned n_methods, n_rows;
	/* model of the started servers; NULL: the default of `tandem serve` */
	const char *model;
	/* further options of the started servers */
	const char *const *option;
	size_t n_options;
	uint32_t at[SERVE_AT_MAX]; /* numbers of clients */
	unsigned n_at;
	/* file of prompts, "-" for standard input; NULL: the prompts of
	 * tasks */
	const char *prompts;
	const char *task[FIGURES_TASKS];
	unsigned n_tasks;
	/* number of prompts of each task or of the file; 0: all */
	uint32_t items;
	uint32_t n_predict;
	unsigned rounds;
	bool chat, json;
	const volatile sig_atomic_t *cancel;
	struct progress_sink progress;
};

/*
 * Measure and print the report. Returns 0, -ECANCELED if interrupted, -EIO if
 * requests failed (the report is printed nevertheless), or another negative
 * errno.
 */
int bench_serve(const struct bench_serve_args *, struct err *);

#endif
