/* Counters of a session: plain data, which any thread may use. */
#ifndef HOST_SESSION_SESSION_STATS_H
#define HOST_SESSION_SESSION_STATS_H

#include "base/counters.h"
#include "host/memory/experts_stats.h"
#include "host/memory/placement.h"
#include "host/memory/staging_stats.h"
#include "host/session/row_counts.h"
#include "tensor/layout.h"
#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

/* Counters of graph switching. Times are picoseconds of simulated phone time
 * or, without a simulated phone, nanoseconds of the wall clock. */
/* clang-format off */
#define SWITCH_STATS(X)                                                       \
	X(uint64_t, prompts)                                                  \
	X(uint64_t, loads) X(uint64_t, load_time) /* loads of decode graphs */ \
	/* loads of prefill graphs, before a later prompt or in session_rest */ \
	X(uint64_t, reloads) X(uint64_t, reload_time)                         \
	/* time during which nothing was computed because a decode graph was
	 * loading */                                                         \
	X(uint64_t, wait_time)                                                \
	/* time from the start to the end of the computation of prompts,
	 * including reloads and waiting */                                   \
	X(uint64_t, prompt_time)                                              \
	X(uint64_t, planned_time) /* predicted prompt_time */
/* clang-format on */

struct switch_stats {
	uint32_t blocks; /* number of blocks of layers; 0 without switching */
	uint32_t prefill_rows, decode_rows;
	SWITCH_STATS(COUNTER_MEMBER)
	/* most_graphs: largest number of graphs that were on the device at the
	 * same time. most_graphs_kib: largest size of the weights of the graphs
	 * on the device, in KiB. */
	uint32_t most_graphs, most_graphs_kib;
};

/* A run of a block by the NPU, or the load of a block's graph by the loader. */
struct graph_event {
	/* time since the prompt began, in the unit of switch_stats */
	uint64_t begin, end;
	uint32_t block, rows; /* rows: number of rows of the graph */
	/* chunk of the prompt that is computed; for a load, the chunk that was
	 * being computed when the load was requested */
	uint32_t chunk;
	bool load;
};

/*
 * Table of counters: X(since, report, name). `since` defines how
 * session_stats_since treats the counter: keep the later value (KEPT), subtract
 * the earlier value (LESS), or subtract all members of a row_counts (ROWS).
 * `report` defines the member of the JSON output, in the order of this table: a
 * number with the counter's name (WHOLE); a number of seconds, named `name_s`
 * for the counter `name_ns` (SECONDS); or an object with all members of a
 * row_counts (ROWS). APART means that other code writes the counter to the
 * JSON output, if any code does.
 */
/* clang-format off */
#define SESSION_STATS(X)                                                      \
	/* logits_rows: rows of logits that were used. logits_computed: rows of
	 * logits that were computed. */                                      \
	X(LESS, WHOLE, logits_rows) X(LESS, WHOLE, logits_computed)           \
	/* time of computing logits. logits_ns: on the wall clock, without the
	 * time for streaming weights in between. logits_ps: on the clock of
	 * the simulated phone. */                                            \
	X(LESS, SECONDS, logits_ns) X(LESS, APART, logits_ps)                 \
	X(LESS, WHOLE, passes)         /* number of forward passes */         \
	X(LESS, WHOLE, rows)           /* rows computed, without padding */   \
	/* rows computed in the layers after exit_layers */                   \
	X(LESS, APART, upper_rows)                                            \
	X(LESS, WHOLE, padded_rows)    /* padding rows of the static graphs */ \
	X(LESS, APART, pass_ns)        /* wall time in passes */              \
	/* prompt_rows: rows of session_prefill, and rows of other passes that
	 * are marked as part of a prompt. decode_rows: all other rows. */    \
	X(ROWS, ROWS, prompt_rows) X(ROWS, ROWS, decode_rows)                 \
	/* number of completions received from the device */                  \
	X(LESS, WHOLE, round_trips)                                           \
	/* how often the host slept while it waited */                        \
	X(LESS, WHOLE, sleeps)                                                \
	/* restarts: number of replaced devices. restart_ns: time from noticing
	 * each loss until the new device was set up. */                      \
	X(KEPT, WHOLE, restarts) X(KEPT, SECONDS, restart_ns)                 \
	X(KEPT, WHOLE, maps) X(KEPT, WHOLE, unmaps)                           \
	/* number of bytes that are mapped in the device's window now */      \
	X(KEPT, WHOLE, bytes_mapped)                                          \
	/* remaps: number of mappings made during passes. remap_bytes: bytes of
	 * these mappings. */                                                 \
	X(LESS, WHOLE, remaps) X(LESS, WHOLE, remap_bytes)                    \
	/* time during which the device was idle because weights outside the
	 * device's window were being mapped or copied */                     \
	X(LESS, APART, stall_ns) X(LESS, APART, stall_ps)                     \
	/* copies: number of copies of temporary blocks (blocks whose weights
	 * are copied into a slot in the device's window before each use).
	 * copied_bytes: bytes of these copies. */                            \
	X(LESS, APART, copies) X(LESS, APART, copied_bytes)                   \
	/* extended_room: size of the device's extended region (addresses that
	 * only DMA can read). extended_bytes, extended_buffers: bytes and
	 * number of the buffers in the region, including those of a session
	 * that shares the device. extended_read: bytes that DMA read from the
	 * region in all passes. */                                           \
	X(KEPT, WHOLE, extended_room) X(KEPT, WHOLE, extended_bytes)          \
	X(KEPT, WHOLE, extended_buffers) X(LESS, WHOLE, extended_read)        \
	X(KEPT, WHOLE, weight_bytes)   /* bytes of all layers' weights */     \
	X(KEPT, WHOLE, kv_bytes)                                              \
	/* kv_read_bytes: bytes of keys and values that attention read in all
	 * passes. kv_apart_bytes: bytes that attention would have read if each
	 * row had read its keys and values separately. */                    \
	X(LESS, WHOLE, kv_read_bytes) X(LESS, WHOLE, kv_apart_bytes)          \
	/* passes with rows of several sequences */                           \
	X(LESS, APART, mixed_passes)                                          \
	/* runs of the cache (KV_RUN adjacent slots) that were copied because
	 * several sequences shared them */                                   \
	X(LESS, APART, copied_runs)                                           \
	/* the device's counters, explained at WIRE_COUNTERS (ipc/wire.h) */   \
	X(LESS, WHOLE, dma_bytes) X(LESS, WHOLE, invalidated_lines)           \
	X(LESS, WHOLE, cleaned_lines) X(LESS, WHOLE, evicted_lines)           \
	X(LESS, WHOLE, whole_calls)                                           \
	X(KEPT, WHOLE, violations) X(LESS, WHOLE, saturated)                  \
	X(LESS, APART, busy_ns)                                               \
	/* rows_not_finite: rows with a logit or a value of the hidden state  \
	 * that is infinite, NaN, or at least 2^56. weights_not_finite:       \
	 * weights of a GGUF file that are infinite or NaN. */                \
	X(LESS, WHOLE, rows_not_finite) X(KEPT, WHOLE, weights_not_finite)    \
	/* simulated phone time of session_prefill */                         \
	X(LESS, APART, prompt_ps)
/* clang-format on */

struct session_stats {
#define SESSION_TYPE_LESS                   uint64_t
#define SESSION_TYPE_KEPT                   uint64_t
#define SESSION_TYPE_ROWS                   struct row_counts
#define SESSION_MEMBER(since, report, name) SESSION_TYPE_##since name;
	SESSION_STATS(SESSION_MEMBER)
	/* the policy that places the weights; not PLACEMENT_AUTO */
	enum placement_policy placement;
	/* bytes of weights that are mapped in the device's window now, except
	 * staging slots and swap slots (buffers into which weights are streamed
	 * or copied) */
	uint64_t resident_bytes;
	/* number of blocks whose weights are copied into the device's window in
	 * every pass */
	uint32_t temporary_blocks;
	/* hash of all used logits, in order, since the session was opened or
	 * since the last session_hash_anew */
	uint64_t logits_hash;
	/* Cost of all work on the simulated phone. Its total_ps is the time
	 * from start to end. If flash, NPU and CPU work at the same time,
	 * total_ps is less than the sum of their times. */
	struct price price;
	struct switch_stats graphs;
	uint32_t blocks, layers_per_block;
	uint32_t resident_layers;
	/* resident_runs: number of groups of resident layers. layers_before:
	 * number of layers in the first group, which precedes all streamed
	 * layers. */
	uint32_t resident_runs, layers_before;
	/* stage_slots: number of staging slots for the streamed layers.
	 * stage_parts: maximum number of parts of a layer. stage_bytes: bytes
	 * of one slot. All are 0 if no layer is streamed. */
	unsigned stage_slots, stage_parts;
	uint64_t stage_bytes;
	bool output_streamed; /* whether the output matrix is streamed */
	/* With experts. expert_slots: number of experts that have a slot in
	 * memory. experts: counters of the cache of experts. */
	uint32_t expert_slots;
	struct experts_stats experts;
	struct staging_stats staging; /* all 0 without streaming */
	enum layout layout;           /* never LAYOUT_DEFAULT */
	uint32_t threads;
	char kern[16]; /* name of the device's kernels */
};

/* Subtract the counters of *before, an earlier state of the same session.
 * Counters marked KEPT and members that are not counters keep their values. */
void session_stats_since(
	struct session_stats *now, const struct session_stats *before);

#endif
