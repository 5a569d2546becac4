/*
 * tandem bench diffusion: compares decoders of diffusion models with one
 * another and with plain and drafted decoding: accuracy, tokens a pass, and the
 * use of a pass's rows; the gain by each technique of llada.cpp ("Efficient
 * On-Device Diffusion LLM Inference with Mobile NPU", 2026, sections 5.4 and
 * 5.5), the sensitivity to its settings, and the cost of a small address
 * window. An experiment (host/bench/experiment.h). One thread.
 *
 * Rows of masked diffusion use the model given with --model if that is a masked
 * diffusion model. Rows of block diffusion and of plain decoding use bundled
 * models, since no model is of two kinds.
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
	/* accuracy by tokens a pass, and areas below the curves */
	DIFFUSION_T_CURVE,
	DIFFUSION_T_ABLATION,    /* table 6 of the paper */
	DIFFUSION_T_SENSITIVITY, /* figure 13 */
	DIFFUSION_T_WINDOW,
	DIFFUSION_T_EXACT, /* runs that must generate the same text */
	DIFFUSION_TABLES
};
extern const char *const diffusion_table_names[DIFFUSION_TABLES];

struct bench_diffusion_args {
	struct bench_options run;
	bool table[DIFFUSION_TABLES];
	/* For the table of windows: sizes in MiB, and numbers of simultaneous
	 * mappings. */
	uint32_t window[TABLE_LEVELS], slots[TABLE_LEVELS];
	unsigned n_windows, n_slots;
};

/* Measure and print the report; -ECANCELED when interrupted. */
int bench_diffusion(const struct bench_diffusion_args *, struct err *);

#endif
