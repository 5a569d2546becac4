/*
 * Counters of a session. Plain data, any thread.
 */
#ifndef HOST_SESSION_SESSION_STATS_H
#define HOST_SESSION_SESSION_STATS_H

#include "base/counters.h"
#include "host/memory/staging_stats.h"
#include "host/session/row_counts.h"
#include "tensor/layout.h"
#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Counters of graph switching. Times are those of the clock in use: picoseconds
 * of the phone or, without one, nanoseconds.
 */
/* clang-format off */
#define SWITCH_STATS(X)                                                       \
	X(uint64_t, prompts)                                                  \
	X(uint64_t, loads) X(uint64_t, load_time) /* of decode graphs */      \
	/* of prefill graphs, before a later prompt or at rest */             \
	X(uint64_t, reloads) X(uint64_t, reload_time)                         \
	/* time without any computation, waiting for a decode graph */           \
	X(uint64_t, wait_time)                                                \
	X(uint64_t, prompt_time) /* from begin to end, including all of the above */  \
	X(uint64_t, planned_time) /* expected prompt_time */
/* clang-format on */

struct switch_stats {
	uint32_t blocks; /* 0: switching is off */
	uint32_t prefill_rows, decode_rows;
	SWITCH_STATS(COUNTER_MEMBER)
	/* Most graphs that the device ever held at once, and KiB of their
	 * weights. */
	uint32_t most_graphs, most_graphs_kib;
};

/* A run of a block by the NPU, or the load of its graph beside it. */
struct graph_event {
	/* since the prompt began, in the units of switch_stats */
	uint64_t begin, end;
	uint32_t block, rows; /* rows: of the graph */
	uint32_t chunk; /* of the prompt; for a load: when it was requested */
	bool load;
};

/*
 * Table of counters: X(since, report, name). session_stats_since keeps the
 * later value (KEPT), or subtracts the earlier one from it (LESS); ROWS are
 * row_counts. JSON output has a member of that name, a WHOLE number or, for
 * nanoseconds, SECONDS (`name_s` of `name_ns`), in this order; APART means it
 * is written elsewhere.
 */
/* clang-format off */
#define SESSION_STATS(X)                                                      \
	/* rows of logits that were used, and all that were computed */       \
	X(LESS, WHOLE, logits_rows) X(LESS, WHOLE, logits_computed)           \
	/* wall time, without the time for streaming in between */  \
	X(LESS, SECONDS, logits_ns) X(LESS, APART, logits_ps)                 \
	X(LESS, WHOLE, passes)         /* forwards */                         \
	X(LESS, WHOLE, rows)           /* real rows computed */               \
	X(LESS, APART, upper_rows)     /* those after exit_layers */   \
	X(LESS, WHOLE, padded_rows)    /* unused rows of the static graphs */     \
	X(LESS, APART, pass_ns)        /* in forwards */                      \
	/* valid and wasted rows: of session_prefill, and rows of other passes
	 * marked as part of a prompt; of all others */    \
	X(ROWS, ROWS, prompt_rows) X(ROWS, ROWS, decode_rows)                 \
	X(LESS, WHOLE, round_trips)    /* completions received */             \
	X(LESS, WHOLE, sleeps)         /* of the host, waiting */             \
	/* replacement devices, and the time from noticing the loss until they
	 * were set up */       \
	X(KEPT, WHOLE, restarts) X(KEPT, SECONDS, restart_ns)                 \
	X(KEPT, WHOLE, maps) X(KEPT, WHOLE, unmaps)                           \
	X(KEPT, WHOLE, bytes_mapped)   /* in the window now */                \
	/* maps during passes, and their bytes */   \
	X(LESS, WHOLE, remaps) X(LESS, WHOLE, remap_bytes)                    \
	/* waiting for weights outside the window to be mapped or copied while
	 * the device was idle */  \
	X(LESS, APART, stall_ns) X(LESS, APART, stall_ps)                     \
	/* of temporary blocks */                                      \
	X(LESS, APART, copies) X(LESS, APART, copied_bytes)                   \
	/* size of the device's extended region; buffers in it, those of a
	 * session beside this one included; bytes that DMA read from it in all
	 * passes */          \
	X(KEPT, WHOLE, extended_room) X(KEPT, WHOLE, extended_bytes)          \
	X(KEPT, WHOLE, extended_buffers) X(LESS, WHOLE, extended_read)        \
	X(KEPT, WHOLE, weight_bytes)   /* of the layers */                    \
	X(KEPT, WHOLE, kv_bytes)                                              \
	/* bytes of keys and values that attention read in all passes, and would
	 * have read if each row read its own */        \
	X(LESS, WHOLE, kv_read_bytes) X(LESS, WHOLE, kv_apart_bytes)          \
	X(LESS, APART, mixed_passes)   /* with rows of several sequences */   \
	/* of the cache, for sequences that shared them */                    \
	X(LESS, APART, copied_runs)                                           \
	/* of the device: WIRE_COUNTERS */                                    \
	X(LESS, WHOLE, dma_bytes) X(LESS, WHOLE, invalidated_lines)           \
	X(LESS, WHOLE, cleaned_lines) X(LESS, WHOLE, evicted_lines)           \
	X(LESS, WHOLE, whole_calls)                                           \
	X(KEPT, WHOLE, violations) X(LESS, WHOLE, saturated)                  \
	X(LESS, APART, busy_ns)                                               \
	/* rows of logits with a value that is not finite, or computed from such
	 * a norm; values of a model file's weights that are not finite (convert
	 * refuses them for an image) */  \
	X(LESS, WHOLE, rows_not_finite) X(KEPT, WHOLE, weights_not_finite)    \
	X(LESS, APART, prompt_ps)      /* of session_prefill */
/* clang-format on */

struct session_stats {
#define SESSION_TYPE_LESS                   uint64_t
#define SESSION_TYPE_KEPT                   uint64_t
#define SESSION_TYPE_ROWS                   struct row_counts
#define SESSION_MEMBER(since, report, name) SESSION_TYPE_##since name;
	SESSION_STATS(SESSION_MEMBER)
	/* of weights in the window now, without those in slots */
	uint64_t resident_bytes;
	uint32_t temporary_blocks; /* blocks that a plan copies in every pass */
	/* of all logits_rows so far, in order, or since session_hash_anew */
	uint64_t logits_hash;
	/* On the phone: all work and, as its total_ps, the time from beginning
	 * to end, which is less where flash, NPU and CPU overlap. */
	struct price price;
	struct switch_stats graphs;
	uint32_t blocks, layers_per_block;
	uint32_t resident_layers;
	/* Runs of resident layers; streamed layers before the first of them. */
	uint32_t resident_runs, layers_before;
	/* Staging slots for the streamed layers, bytes of one, and parts of a
	 * layer at most; 0: nothing is streamed. */
	unsigned stage_slots, stage_parts;
	uint64_t stage_bytes;
	struct staging_stats staging; /* all zero if nothing is streamed */
	enum layout layout;           /* never UNSAID */
	uint32_t threads;
	char kern[16]; /* name of the device's kernels */
};

/* Subtract the counters of *before, an earlier state of the same session; KEPT
 * ones and values that are no counters stay. */
void session_stats_since(
	struct session_stats *now, const struct session_stats *before);

#endif
