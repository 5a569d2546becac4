/*
 * tandem bench diffusion: compares decoders of diffusion models with one
 * another, with plain decoding and with speculative decoding. The benchmark
 * reports accuracy, tokens per pass, and how many rows (computed positions) of
 * a pass are useful. The benchmark also measures the gain of each technique of
 * llada.cpp ("Efficient On-Device Diffusion LLM Inference with Mobile NPU",
 * 2026, sections 5.4 and 5.5), and the effect of the techniques' settings. The
 * benchmark also measures the cost of a small address window of the NPU. The
 * benchmark is an experiment (host/bench/experiment.h). Single-threaded.
 *
 * Table rows of masked diffusion run the model of the option --model or,
 * without this option, the bundled masked diffusion model. Table rows of block
 * diffusion and of plain decoding always run bundled models, because one model
 * cannot be of several kinds.
 */
#ifndef HOST_BENCH_BENCH_DIFFUSION_H
#define HOST_BENCH_BENCH_DIFFUSION_H

#include "host/bench/bench_run.h"
#include "host/bench/experiment_table.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

enum diffusion_table_kind {
	/* decoders of masked-diffusion models, compared with plain and
	 * speculative decoding of the (causal) target model */
	DIFFUSION_T_DECODERS,
	/* comparison of the decoders of the block-diffusion model */
	DIFFUSION_T_BLOCKS,
	/* curves of accuracy against tokens per pass, and the areas under these
	 * curves */
	DIFFUSION_T_CURVE,
	/* gain of each technique (table 6 of the llada.cpp paper) */
	DIFFUSION_T_ABLATION,
	/* effect of the techniques' settings (figure 13 of the llada.cpp
	 * paper) */
	DIFFUSION_T_SENSITIVITY,
	/* speed and energy by phone, shape and length (figures 11 and 12 of the
	 * llada.cpp paper) */
	DIFFUSION_T_PHONES,
	DIFFUSION_T_WINDOW,
	/* runs of different methods that must generate the same text */
	DIFFUSION_T_EXACT,
	DIFFUSION_TABLES
};
extern const char *const diffusion_table_names[DIFFUSION_TABLES];

struct bench_diffusion_args {
	struct bench_options run;
	bool table[DIFFUSION_TABLES];
	/* for the table of address windows: sizes of the NPU's window in MiB,
	 * and limits on the number of buffers that are mapped at the same
	 * time */
	uint32_t window[TABLE_LEVELS], slots[TABLE_LEVELS];
	unsigned n_windows, n_slots;
};

/* Measure and print the report. Returns 0 on success, -ECANCELED if
 * interrupted, or another negative errno. */
int bench_diffusion(const struct bench_diffusion_args *, struct err *);

#endif
