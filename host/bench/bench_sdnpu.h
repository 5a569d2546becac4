/*
 * tandem bench sdnpu: retrieval speculation as its papers measure it (sd.npu,
 * section 4): what each technique adds, how many tokens a pass emits with each
 * drafter and without and with the paper's two, what becomes of the NPU's rows,
 * and what it costs. An experiment (host/bench/experiment.h) whose settings and
 * tables are the paper's. One thread.
 */
#ifndef HOST_BENCH_BENCH_SDNPU_H
#define HOST_BENCH_BENCH_SDNPU_H

#include "host/bench/bench_run.h"

#include <stdbool.h>

struct err;

enum sdnpu_table_kind {
	SDNPU_T_ABLATION, /* table 3 of the paper, and its ratios */
	SDNPU_T_LENGTH,   /* figure 13 */
	SDNPU_T_DRAFTERS, /* all of them beside one another */
	SDNPU_T_CYCLES,   /* where the NPU's rows go */
	SDNPU_T_OVERHEAD, /* section 4.4 */
	SDNPU_T_GRAPHS,   /* graph switching; bench_sdnpu_graphs.h */
	SDNPU_TABLES
};
extern const char *const sdnpu_table_names[SDNPU_TABLES];

struct bench_sdnpu_args {
	struct bench_asked run; /* of tasks */
	bool table[SDNPU_TABLES];
};

/* Measure and tell; -ECANCELED when interrupted. */
int bench_sdnpu(const struct bench_sdnpu_args *, struct err *);

#endif
