/*
 * tandem bench sdnpu: measures retrieval-based speculative decoding as in
 * section 4 of the sd.npu paper ("Accelerating mobile language model via
 * speculative decoding and NPU-coordinated execution"). The benchmark measures
 * the gain of each technique, and the number of tokens that a pass emits, for
 * each drafter, with and without the paper's two techniques (reuse of rejected
 * tokens, and calibration of drafts while the prompt is read). It also measures
 * the use of the rows (tokens) of NPU passes, and the overhead of the two
 * techniques. The benchmark is an experiment (host/bench/experiment.h) with the
 * settings and tables of the paper. Single-threaded.
 */
#ifndef HOST_BENCH_BENCH_SDNPU_H
#define HOST_BENCH_BENCH_SDNPU_H

#include "host/bench/bench_run.h"

#include <stdbool.h>

struct err;

enum sdnpu_table_kind {
	/* gain of each technique (table 3 of the paper): speeds with and
	 * without the technique, and the ratios of the times */
	SDNPU_T_ABLATION,
	/* tokens that a pass emits (figure 13 of the paper) */
	SDNPU_T_LENGTH,
	/* for each source of drafts, the drafted and the accepted tokens of a
	 * pass; and the time of drafting */
	SDNPU_T_SOURCES,
	SDNPU_T_CYCLES, /* use of the rows of NPU passes */
	/* overhead of the techniques (section 4.4 of the paper) */
	SDNPU_T_OVERHEAD,
	/* speed-ups over plain decoding, computed for several values of the
	 * time that a row takes on the phone */
	SDNPU_T_ROW_COST,
	/*
	 * speed of sdnpu divided by the speed of each method with which the
	 * paper compares it, for each phone and model (figures 11 and 12 of the
	 * sd.npu paper)
	 */
	SDNPU_T_PHONES,
	SDNPU_T_GRAPHS, /* graph switching (bench_sdnpu_graphs.h) */
	SDNPU_TABLES
};
extern const char *const sdnpu_table_names[SDNPU_TABLES];

/* The version of the paper whose parameters the drafters use; NONE: the
 * drafters use their default parameters. */
enum sdnpu_paper { SDNPU_PAPER_NONE, SDNPU_PAPER_A, SDNPU_PAPER_B };

struct bench_sdnpu_args {
	/* options of the run, which must not use random prompts */
	struct bench_options run;
	bool table[SDNPU_TABLES];
	enum sdnpu_paper paper;
};

/* Measure and print the report. Returns 0 on success, -ECANCELED if
 * interrupted, or another negative errno. */
int bench_sdnpu(const struct bench_sdnpu_args *, struct err *);

#endif
