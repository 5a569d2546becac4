/*
 * What a session counts. Plain data, any thread.
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
 * What graph switching came to. Times are those of the clock in use:
 * picoseconds of the phone or, without one, nanoseconds.
 */
/* clang-format off */
#define SWITCH_STATS(X)                                                       \
	X(uint64_t, prompts)                                                  \
	X(uint64_t, loads) X(uint64_t, load_time) /* of decode graphs */      \
	/* of prefill graphs, before a later prompt or at rest */             \
	X(uint64_t, reloads) X(uint64_t, reload_time)                         \
	/* while nothing was computed for want of a decode graph */           \
	X(uint64_t, wait_time)                                                \
	X(uint64_t, prompt_time) /* from begin to end, all these included */  \
	X(uint64_t, planned_time) /* what that was expected to be */
/* clang-format on */

struct switch_stats {
	uint32_t blocks; /* 0: it is off */
	uint32_t prefill_rows, decode_rows;
	SWITCH_STATS(COUNTER_MEMBER)
	/* That the device ever held at once, and KiB of their weights. */
	uint32_t most_graphs, most_graphs_kib;
};

/* A run of a block by the NPU, or the load of its graph beside. */
struct graph_event {
	uint64_t begin, end;  /* since the prompt began, as in switch_stats */
	uint32_t block, rows; /* of the graph */
	uint32_t chunk; /* of the prompt; of a load: when it was asked for */
	bool load;
};

/*
 * What a session counts: X(since, report, name). Of two times it is the later
 * one LESS the earlier, or is KEPT (session_stats_since); ROWS are row_counts.
 * JSON has a member of that name, a WHOLE number or, of nanoseconds, SECONDS
 * (`name_s` of `name_ns`), in this order; or it stands APART.
 */
/* clang-format off */
#define SESSION_STATS(X)                                                      \
	/* rows of logits that were used, and all that were computed */       \
	X(LESS, WHOLE, logits_rows) X(LESS, WHOLE, logits_computed)           \
	/* for how long, of the wall without what streaming did meanwhile */  \
	X(LESS, SECONDS, logits_ns) X(LESS, APART, logits_ps)                 \
	X(LESS, WHOLE, passes)         /* forwards */                         \
	X(LESS, WHOLE, rows)           /* real rows computed */               \
	X(LESS, APART, upper_rows)     /* of them behind exit_layers too */   \
	X(LESS, WHOLE, padded_rows)    /* of the static graphs, unused */     \
	X(LESS, APART, pass_ns)        /* in forwards */                      \
	/* what came of them: of the passes of session_prefill, with rows     \
	 * beside others' that are said to read a prompt; of all others */    \
	X(ROWS, ROWS, prompt_rows) X(ROWS, ROWS, decode_rows)                 \
	X(LESS, WHOLE, round_trips)    /* completions received */             \
	X(LESS, WHOLE, sleeps)         /* of the host, waiting */             \
	/* devices that took a lost one's place, and how long it took from    \
	 * where the loss was noticed until they had all they needed */       \
	X(KEPT, WHOLE, restarts) X(KEPT, SECONDS, restart_ns)                 \
	X(KEPT, WHOLE, maps) X(KEPT, WHOLE, unmaps)                           \
	X(KEPT, WHOLE, bytes_mapped)   /* in the window now */                \
	/* maps that passes had to wait for, and what was mapped by them */   \
	X(LESS, WHOLE, remaps) X(LESS, WHOLE, remap_bytes)                    \
	/* what weights that were not in the window cost: waiting for them    \
	 * to be mapped or copied while the device had nothing else to do */  \
	X(LESS, APART, stall_ns) X(LESS, APART, stall_ps)                     \
	/* of blocks that come and go */                                      \
	X(LESS, APART, copies) X(LESS, APART, copied_bytes)                   \
	/* the device's extended region; buffers in it, those of a session    \
	 * beside this one too; what DMA read of it in all passes */          \
	X(KEPT, WHOLE, extended_room) X(KEPT, WHOLE, extended_bytes)          \
	X(KEPT, WHOLE, extended_buffers) X(LESS, WHOLE, extended_read)        \
	X(KEPT, WHOLE, weight_bytes)   /* of the layers */                    \
	X(KEPT, WHOLE, kv_bytes)                                              \
	/* keys and values that attention read in all passes, and that it     \
	 * would have read had each row read what it sees by itself */        \
	X(LESS, WHOLE, kv_read_bytes) X(LESS, WHOLE, kv_apart_bytes)          \
	X(LESS, APART, mixed_passes)   /* with rows of several sequences */   \
	/* of the cache, for sequences that shared them */                    \
	X(LESS, APART, copied_runs)                                           \
	/* of the device: WIRE_COUNTERS */                                    \
	X(LESS, WHOLE, dma_bytes) X(LESS, WHOLE, invalidated_lines)           \
	X(LESS, WHOLE, cleaned_lines) X(LESS, WHOLE, evicted_lines)           \
	X(KEPT, WHOLE, violations) X(LESS, WHOLE, saturated)                  \
	X(LESS, APART, busy_ns)                                               \
	/* what can mean nothing: rows of logits that hold a value that is    \
	 * infinite or no number, or come from such a norm; such values of a  \
	 * model file's weights (an image has none: convert refuses them) */  \
	X(LESS, WHOLE, rows_not_finite) X(KEPT, WHOLE, weights_not_finite)    \
	X(LESS, APART, prompt_ps)      /* of session_prefill */
/* clang-format on */

struct session_stats {
#define SESSION_TYPE_LESS                   uint64_t
#define SESSION_TYPE_KEPT                   uint64_t
#define SESSION_TYPE_ROWS                   struct row_counts
#define SESSION_MEMBER(since, report, name) SESSION_TYPE_##since name;
	SESSION_STATS(SESSION_MEMBER)
	uint64_t resident_bytes;   /* of weights in the window now, but for
				    * those in slots */
	uint32_t temporary_blocks; /* that a plan copies in every pass */
	uint64_t logits_hash; /* of all logits_rows so far, in order, or since
			       * session_hash_anew */
	/* On the phone: all work and, as its total_ps, the time from beginning
	 * to end, which is less where flash, NPU and CPU work beside one
	 * another. */
	struct price price;
	struct switch_stats graphs;
	uint32_t blocks, layers_per_block;
	uint32_t resident_layers;
	/* In so many runs among the others; in front of the first of those so
	 * many. */
	uint32_t resident_runs, layers_before;
	/* Through which the others come, of so many bytes, a layer in so many
	 * parts at most; 0: none does. */
	unsigned stage_slots, stage_parts;
	uint64_t stage_bytes;
	struct staging_stats staging; /* all zero where nothing is streamed */
	enum layout layout;           /* never UNSAID */
	uint32_t threads;
	char kern[16]; /* the device's kernels */
};

/* What *now counts more than *before, an earlier one of the same session; what
 * is KEPT, and what is no counter, stays what it is. */
void session_stats_since(
	struct session_stats *now, const struct session_stats *before);

#endif
