/*
 * tandem bench sdnpu: retrieval speculation as its papers measure it (sd.npu,
 * section 4): the gain by each technique, the tokens a pass emits by drafter,
 * each with and without the paper's two techniques, the use of the NPU's rows,
 * and the overhead. An experiment (host/bench/experiment.h) whose settings and
 * tables are the paper's. One thread.
 */
#ifndef HOST_BENCH_BENCH_SDNPU_H
#define HOST_BENCH_BENCH_SDNPU_H

#include "host/bench/bench_run.h"

#include <stdbool.h>

struct err;

enum sdnpu_table_kind {
	SDNPU_T_ABLATION, /* table 3 of the paper, and the ratios of its rows */
	SDNPU_T_LENGTH,   /* figure 13 */
	SDNPU_T_DRAFTERS, /* each drafter alone */
	SDNPU_T_CYCLES,   /* use of the NPU's rows */
	SDNPU_T_OVERHEAD, /* section 4.4 */
	SDNPU_T_GRAPHS,   /* graph switching; bench_sdnpu_graphs.h */
	SDNPU_TABLES
};
extern const char *const sdnpu_table_names[SDNPU_TABLES];

struct bench_sdnpu_args {
	struct bench_options run; /* of tasks */
	bool table[SDNPU_TABLES];
};

/* Measure and print the report; -ECANCELED when interrupted. */
int bench_sdnpu(const struct bench_sdnpu_args *, struct err *);

#endif
