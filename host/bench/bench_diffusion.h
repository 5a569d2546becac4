/*
 * tandem bench diffusion: decoders of diffusion models beside one another and
 * beside plain and drafted decoding: how often they are right, how many tokens
 * a pass gives and what became of its rows; what each part of llada.cpp adds
 * ("Efficient On-Device Diffusion LLM Inference with Mobile NPU", 2026,
 * sections 5.4 and 5.5), how it depends on its settings, and what a small
 * address window costs. An experiment (host/bench/experiment.h). One thread.
 *
 * A row has the model that was asked for where it is one of masked diffusion;
 * rows of block diffusion and of plain decoding have those that come with the
 * program, for no model is of two kinds.
 */
#ifndef HOST_BENCH_BENCH_DIFFUSION_H
#define HOST_BENCH_BENCH_DIFFUSION_H

#include "host/bench/bench_run.h"
#include "host/bench/experiment_table.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

enum diffusion_table_kind {
	DIFFUSION_T_DECODERS,
	DIFFUSION_T_CURVE,    /* accuracy by tokens a pass, and areas below */
	DIFFUSION_T_ABLATION, /* table 6 of the paper */
	DIFFUSION_T_SENSITIVITY, /* figure 13 */
	DIFFUSION_T_WINDOW,
	DIFFUSION_T_EXACT, /* what must be the same text */
	DIFFUSION_TABLES
};
extern const char *const diffusion_table_names[DIFFUSION_TABLES];

struct bench_diffusion_args {
	struct bench_asked run;
	bool table[DIFFUSION_TABLES];
	/* Of the table of windows: MiB, and mappings at a time. */
	uint32_t window[TABLE_LEVELS], slots[TABLE_LEVELS];
	unsigned n_windows, n_slots;
};

/* Measure and tell; -ECANCELED when interrupted. */
int bench_diffusion(const struct bench_diffusion_args *, struct err *);

#endif
