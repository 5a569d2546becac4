/*
 * Costs and results of the decode phase of a run: sums over items, and the
 * figures of tables that are derived from them. The phase begins with an
 * output's first token, so prompts are not included. Pure functions.
 */
#ifndef HOST_BENCH_FIGURES_H
#define HOST_BENCH_FIGURES_H

#include "base/counters.h"
#include "host/api/report.h"

#include <stdint.h>

struct experiment;
struct run;

#define FIGURES_TASKS 10

/* Sums over decode phases. FIGURES_COUNTED: those with the same name in the
 * session's counters. prompt_*: before an output's first token. */
/* clang-format off */
#define FIGURES_COUNTED(X)                                                    \
	X(uint64_t, passes) X(uint64_t, rows) X(uint64_t, upper_rows)         \
	X(uint64_t, logits_rows)                                              \
	X(uint64_t, logits_computed) /* used or not */                        \
	X(uint64_t, logits_ns) X(uint64_t, logits_ps)

#define FIGURES(X)                                                            \
	X(uint64_t, tokens)                                                   \
	X(uint64_t, ns) X(uint64_t, ps) /* wall clock, phone clock */         \
	FIGURES_COUNTED(X)                                                    \
	X(uint64_t, busy_ns)         /* flash had a read in flight */         \
	X(uint64_t, wait_ns) X(uint64_t, wait_ps) /* wait for layers */       \
	X(uint64_t, check_ns)        /* of layers' checksums */               \
	X(uint64_t, bytes)           /* read from flash */                    \
	X(uint64_t, priced_bytes)    /* the same of the priced model */       \
	X(uint64_t, plain_ns)        /* a plain reader, same bytes */         \
	X(uint64_t, least_ns) X(uint64_t, least_ps) /* flash at its fastest */\
	X(uint64_t, device_ns)                                                \
	X(uint64_t, energy_pj)       /* without base power */                 \
	X(uint64_t, marked) X(uint64_t, right) /* host/eval/eval_check.h */   \
	X(uint64_t, maps)            /* window maps and unmaps */             \
	X(uint64_t, copied_bytes)    /* weight blocks, to slots */            \
	X(uint64_t, stall_ns) X(uint64_t, stall_ps)                           \
	X(uint64_t, prompt_tokens) X(uint64_t, prompt_ns) X(uint64_t, prompt_ps)
/* clang-format on */

struct figures {
	FIGURES(COUNTER_MEMBER)
	struct row_counts decode_rows; /* use of `rows` */
	uint64_t engine_ps[3]; /* the phone's NPU: matrix, vector, memory */
	struct method_stats drafts;
};

void figures_add(struct figures *sum, const struct figures *more);

/* Figures of a run, all tasks together, on the experiment's clock. */
struct run_summary {
	struct figures sum;
	double tokens_per_s; /* geometric mean of the tasks */
	double task_tokens_per_s[FIGURES_TASKS];
	double seconds, draft_s, verify_s;
	double compute_s; /* busiest engine of the NPU */
	double read_s;    /* time of a plain reader */
	double joules;    /* NAN without a phone */
	double prompt_s;
	double stall_s;
	double reading_s; /* time with a read in flight */
	double wait_s, logits_s;
	double check_s; /* NAN on a phone */
};

struct run_summary run_summary(const struct experiment *, const struct run *);
/* Figures of one task's items; task_tokens_per_s has only that task. */
struct run_summary run_task_summary(
	const struct experiment *, const struct run *, unsigned task);

/* A figure of a table; 0 for a run without tokens. */
typedef double figure_of(const struct run_summary *);

figure_of figure_tokens_per_s, figure_length, figure_passes, figure_pass_s,
	figure_rows, figure_logits_rows, figure_draft_share,
	figure_verify_share, figure_seconds, figure_joules, figure_tokens,
	figure_all_logits_rows, figure_upper_rows;
figure_of figure_right; /* share of the scored items; NAN without any */
/* Percentage of tokens that changed after they were shown; rows of a pass
 * without logits, since their tokens are final, and rows that the host computed
 * beside it. */
figure_of figure_revised, figure_skipped, figure_refreshed;
/* For each pass: maps and unmaps, bytes copied, and seconds of an idle device
 * that waits for weights outside the window. */
figure_of figure_maps, figure_copied, figure_stall_s;
/* Shares of the rows of all passes' graphs; of these in whole tiles. */
figure_of figure_valid, figure_wasted, figure_underutilized,
	figure_valid_of_tiles, figure_graph_rows;
figure_of figure_token_s;   /* 1 / mean of tokens/s */
figure_of figure_lost_rows; /* rows without a valid token, for each token */
/* Of prompt and decoding together. */
figure_of figure_request_tokens_per_s, figure_request_s;
/* seconds to the first token, for each token of the prompt */
figure_of figure_prompt_token_s;
/* For each pass: bytes read, of the priced and of the running model; seconds of
 * reading, computing, verifying and drafting; nodes drafted. */
figure_of figure_bytes, figure_bytes_ran, figure_read_s, figure_compute_s,
	figure_verify_s, figure_draft_s, figure_expanded, figure_of_plain,
	figure_overlap, figure_all_bytes, figure_kept;
/* For each pass: the host's time by activity, and rows of logits computed, used
 * or not. Checksums have no price: NAN on a phone. */
figure_of figure_reading_s, figure_wait_s, figure_check_s, figure_logits_s,
	figure_logits_computed;

#endif
