/*
 * What the decode phase of a run took and came to: sums over items, and the
 * figures of tables that follow from them. Counted from the first token of an
 * output to its last, so that prompts are not in them. Pure functions.
 */
#ifndef HOST_BENCH_FIGURES_H
#define HOST_BENCH_FIGURES_H

#include "base/counters.h"
#include "host/api/report.h"

#include <stdint.h>

struct experiment;
struct run;

#define FIGURES_TASKS 10

/* Sums over decode phases; those that a session counts by the same names.
 * Before the first token of an output are prompt_*. */
/* clang-format off */
#define FIGURES_COUNTED(X)                                                    \
	X(uint64_t, passes) X(uint64_t, rows) X(uint64_t, upper_rows)         \
	X(uint64_t, logits_rows)                                              \
	X(uint64_t, logits_computed) /* of these and in vain */               \
	X(uint64_t, logits_ns) X(uint64_t, logits_ps)

#define FIGURES(X)                                                            \
	X(uint64_t, tokens)                                                   \
	X(uint64_t, ns) X(uint64_t, ps) /* of the wall, of the phone */       \
	FIGURES_COUNTED(X)                                                    \
	X(uint64_t, busy_ns)         /* of flash, with a read under way */    \
	X(uint64_t, wait_ns) X(uint64_t, wait_ps) /* for layers from flash */ \
	X(uint64_t, check_ns)        /* of their checksums */                 \
	X(uint64_t, bytes)           /* of layers that came from flash */     \
	X(uint64_t, priced_bytes)    /* as they are priced */                 \
	X(uint64_t, plain_ns)        /* that a plain reader took for them */  \
	X(uint64_t, least_ns) X(uint64_t, least_ps) /* flash, at best */      \
	X(uint64_t, device_ns)                                                \
	X(uint64_t, energy_pj)       /* without base_w */                     \
	X(uint64_t, marked) X(uint64_t, right) /* host/eval/eval_check.h */   \
	X(uint64_t, maps)            /* into the window, and unmaps */        \
	X(uint64_t, copied_bytes)    /* of blocks of weights, into slots */   \
	X(uint64_t, stall_ns) X(uint64_t, stall_ps)                           \
	X(uint64_t, prompt_tokens) X(uint64_t, prompt_ns) X(uint64_t, prompt_ps)
/* clang-format on */

struct figures {
	FIGURES(COUNTER_MEMBER)
	struct row_counts decode_rows; /* what came of `rows` */
	uint64_t engine_ps[3]; /* of the phone's NPU: matrix, vector, memory */
	struct method_stats drafts;
};

void figures_add(struct figures *sum, const struct figures *more);

/* Of a run, all tasks together, on the experiment's clock. */
struct run_summary {
	struct figures sum;
	double tokens_per_s; /* of the tasks the geometric mean */
	double task_tokens_per_s[FIGURES_TASKS];
	double seconds, draft_s, verify_s;
	double compute_s; /* of the NPU's busiest engine */
	double read_s;    /* that a plain reader takes */
	double joules;    /* NAN without a phone */
	double prompt_s;
	double stall_s;
	double reading_s; /* flash had something to read */
	double wait_s, logits_s;
	double check_s; /* NAN on a phone */
};

struct run_summary run_summary(const struct experiment *, const struct run *);
/* Of the items of one task; task_tokens_per_s has that one's alone. */
struct run_summary run_task_summary(
	const struct experiment *, const struct run *, unsigned task);

/* A figure of a table; 0 of a run that came to no token. */
typedef double figure_of(const struct run_summary *);

figure_of figure_tokens_per_s, figure_length, figure_passes, figure_pass_s,
	figure_rows, figure_logits_rows, figure_draft_share,
	figure_verify_share, figure_seconds, figure_joules, figure_tokens,
	figure_all_logits_rows, figure_upper_rows;
figure_of figure_right; /* share of the marked items; NAN of none */
/* Tokens that changed after they were seen, of 100; of a pass rows without
 * logits since their token stays, and those the host computed beside it. */
figure_of figure_revised, figure_skipped, figure_refreshed;
/* A pass: maps and unmaps, bytes copied, and waiting for weights that were not
 * in the window while the device had nothing else to do. */
figure_of figure_maps, figure_copied, figure_stall_s;
/* Of the rows of all passes' graphs; of them in whole tiles. */
figure_of figure_valid, figure_wasted, figure_underutilized,
	figure_valid_of_tiles, figure_graph_rows;
figure_of figure_token_s;   /* of the mean of tokens/s */
figure_of figure_lost_rows; /* that were not valid, a token */
/* Of prompt and decoding together. */
figure_of figure_request_tokens_per_s, figure_request_s;
figure_of figure_prompt_token_s; /* until the first token, a prompt's token */
/* A pass: what it reads, as it is priced and of what runs, and for how long;
 * drafting beside it, and nodes. */
figure_of figure_bytes, figure_bytes_ran, figure_read_s, figure_compute_s,
	figure_verify_s, figure_draft_s, figure_expanded, figure_of_plain,
	figure_overlap, figure_all_bytes, figure_kept;
/* A pass: what its host did with the time, and rows of logits of any use or
 * none. Nothing is priced for checksums: NAN on a phone. */
figure_of figure_reading_s, figure_wait_s, figure_check_s, figure_logits_s,
	figure_logits_computed;

#endif
