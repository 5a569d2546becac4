/*
 * Costs and results of the decode phase of a run: sums over all items, and the
 * figures for tables that are derived from these sums. The decode phase begins
 * with the first token of an output, so prompts are not included. A row is one
 * token of a pass (a run of the model), or padding. Pure functions.
 */
#ifndef HOST_BENCH_FIGURES_H
#define HOST_BENCH_FIGURES_H

#include "base/counters.h"
#include "host/api/report.h"

#include <stdint.h>

struct experiment;
struct run;

#define FIGURES_TASKS 15

/*
 * Sums over decode phases. The members in FIGURES_COUNTED have the same names
 * in the session's counters. The members prompt_* are sums over the time before
 * the first token of an output. A plain reader is a program that only reads the
 * layers (bench_read.h). The modeled shape is the model shape for which costs
 * are computed (option --as); without --as it is the shape of the running
 * model. The base power is the constant power that the phone draws besides its
 * busy engines. The minimum flash time is the time to read priced_bytes at a
 * rate that the flash cannot exceed. The address window is the range of
 * addresses that the NPU can reach; weights are mapped into it, or copied to
 * its slots.
 */
/* clang-format off */
#define FIGURES_COUNTED(X)                                                    \
	X(uint64_t, passes) X(uint64_t, rows) X(uint64_t, upper_rows)         \
	X(uint64_t, logits_rows)                                              \
	X(uint64_t, logits_computed) /* rows of logits, used or not */        \
	X(uint64_t, logits_ns) X(uint64_t, logits_ps)

#define FIGURES(X)                                                            \
	X(uint64_t, items) X(uint64_t, tokens)                                \
	X(uint64_t, ns) X(uint64_t, ps) /* time: wall clock, phone */         \
	FIGURES_COUNTED(X)                                                    \
	X(uint64_t, busy_ns)         /* time with a flash read in flight */   \
	X(uint64_t, wait_ns) X(uint64_t, wait_ps) /* waiting for layers */    \
	X(uint64_t, check_ns)        /* time to check layers' checksums */    \
	X(uint64_t, bytes)           /* bytes read from flash */              \
	X(uint64_t, priced_bytes)    /* `bytes` for the modeled shape */      \
	X(uint64_t, plain_ns)        /* a plain reader's time for `bytes` */  \
	X(uint64_t, least_ns) X(uint64_t, least_ps) /* minimum flash time */  \
	X(uint64_t, device_ns)                                                \
	X(uint64_t, energy_pj)       /* phone's energy without base power */  \
	X(uint64_t, marked) X(uint64_t, right) /* scored items; right items */\
	X(uint64_t, maps)            /* map, unmap calls of address window */ \
	X(uint64_t, copied_bytes)    /* weights copied to window slots */     \
	X(uint64_t, stall_ns) X(uint64_t, stall_ps)                           \
	X(uint64_t, prompt_tokens) X(uint64_t, prompt_ns) X(uint64_t, prompt_ps) \
	X(uint64_t, prompt_energy_pj)
/* clang-format on */

struct figures {
	FIGURES(COUNTER_MEMBER)
	/* number of rows by use: valid, wasted (rejected drafts), or padding */
	struct row_counts decode_rows;
	/* busy time in ps of the engines of the phone's NPU: [0] matrix, [1]
	 * vector, [2] memory engine */
	uint64_t engine_ps[3];
	struct method_stats drafts;
};

void figures_add(struct figures *sum, const struct figures *more);

/* Figures of a run over all tasks. Times are those of the experiment's clock
 * (wall clock or phone). */
struct run_summary {
	struct figures sum;
	double tokens_per_s; /* geometric mean over the tasks */
	double seconds, draft_s, verify_s;
	/* busy time of the device; on a phone, of the NPU's busiest engine */
	double compute_s;
	/* time in which a plain reader (bench_read.h) reads the bytes that the
	 * run read; on a phone, time in which it would read priced_bytes
	 * (experiment.plain_bytes_per_s) */
	double read_s;
	/* joules: energy of decoding. request_joules: energy of prompts and
	 * decoding. NAN if no phone is simulated */
	double joules, request_joules;
	double prompt_s;
	double stall_s;
	/* time in which at least one read was in flight; on a phone, the same
	 * as read_s */
	double reading_s;
	double wait_s, logits_s;
	/* time to check the checksums of layers; NAN if a phone is simulated */
	double check_s;
};

struct run_summary run_summary(const struct experiment *, const struct run *);
/* Return the figures of the items of one task; tokens_per_s is the median over
 * the rounds. */
struct run_summary run_task_summary(
	const struct experiment *, const struct run *, unsigned task);

/* Returns one figure of a table; 0 if the run has generated no tokens. */
typedef double figure_of(const struct run_summary *);

figure_of figure_tokens_per_s, figure_length, figure_passes, figure_pass_s,
	figure_rows, figure_logits_rows, figure_draft_share,
	figure_verify_share, figure_seconds, figure_joules, figure_tokens,
	figure_all_logits_rows, figure_upper_rows;
/* share of the scored items that are right; NAN if no item is scored */
figure_of figure_right;
/* revised: percentage of tokens that changed after they were shown to the user.
 * skipped: rows per pass whose tokens are final, so that no logits are
 * computed. refreshed: rows per pass that the host computed while the device
 * ran the pass. */
figure_of figure_revised, figure_skipped, figure_refreshed;
/* Of llada-npu: share of the passes that begin with at most 4 masks in their
 * block; percentage of tokens that may still change when their block is
 * finished; mean number of the block's pass that replaces a mask in the left
 * and in the right half of a block. */
figure_of figure_tails, figure_unstable, figure_left_pass, figure_right_pass;
/* mean power while decoding, in W */
figure_of figure_watts;
/* Per pass: maps and unmaps of the address window, weight bytes copied into the
 * window's slots, and seconds that the device was idle because it waited for
 * weights outside the window. */
figure_of figure_maps, figure_copied, figure_stall_s;
/*
 * Shares of the rows of all graphs that were run: rows with a valid token,
 * wasted rows (computed for drafts that were rejected), and padding rows.
 * valid_of_tiles is the share of valid rows if each graph is rounded up to
 * whole tiles of the matrix engine. graph_rows is the number of rows of all
 * graphs.
 */
figure_of figure_valid, figure_wasted, figure_underutilized,
	figure_valid_of_tiles, figure_graph_rows;
figure_of figure_token_s; /* seconds per token: 1 / mean tokens/s */
/* rows without a valid token, divided by the number of tokens */
figure_of figure_lost_rows;
/* Figures of prompt and decoding together: tokens/s and seconds per token of
 * all requests, and joules per request. */
figure_of figure_request_tokens_per_s, figure_request_s, figure_request_joules;
/* seconds until the first token, divided by the number of tokens of the
 * prompt */
figure_of figure_prompt_token_s;
/*
 * Per pass: bytes that a pass of the modeled shape (see FIGURES) reads (bytes),
 * and bytes that a pass of the running model reads (bytes_ran); seconds of
 * reading, computing, verifying and drafting; number of nodes whose children
 * were drafted (expanded). Not per pass: of_plain, the time of a plain reader
 * (bench_read.h) divided by the time of the run; overlap, the longer of the
 * times of reading and computing, divided by the time of the run; all_bytes,
 * bytes of all passes; kept, share of the tree's rows that pruning kept.
 */
figure_of figure_bytes, figure_bytes_ran, figure_read_s, figure_compute_s,
	figure_verify_s, figure_draft_s, figure_expanded, figure_of_plain,
	figure_overlap, figure_all_bytes, figure_kept;
/* Per pass: seconds of reading from flash, of waiting for layers, of checking
 * checksums, and of computing logits; and rows of logits that were computed,
 * whether used or not. check_s is NAN on a phone, because phone profiles have
 * no cost for checksums. */
figure_of figure_reading_s, figure_wait_s, figure_check_s, figure_logits_s,
	figure_logits_computed;

/* Per pass, for each source of drafts: number of verified tokens, and number of
 * accepted tokens. */
#define SOURCE_FIGURES(id, name) \
	figure_of figure_##name##_rows, figure_##name##_accepted;
DRAFT_SOURCES(SOURCE_FIGURES)

#endif
