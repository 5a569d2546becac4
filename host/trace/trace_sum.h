/*
 * A timeline summed up: what was done in its texts, how long each kind of work
 * took on each track, when the device had nothing to do, and what went on
 * beside what. Counts are those of the events, so that they can be held against
 * a run's own (`tandem run --stats`); nothing is estimated.
 *
 * Where a trace has texts, what happened in them alone is summed: not the start
 * of the pair. Only reads the timeline; any thread.
 */
#ifndef HOST_TRACE_TRACE_SUM_H
#define HOST_TRACE_TRACE_SUM_H

#include "base/counters.h"
#include "host/trace/timeline.h"
#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define TRACE_LONGEST 5

/* Work of a kind on tracks of a role. */
struct trace_work {
	uint64_t n;
	uint64_t ns; /* without what lies within it, of whatever kind */
};

struct trace_phone {
	bool there;
	/* From the beginning of each text to its end; 0 without texts: the end
	 * of the CPU's track. */
	uint64_t total_ps;
	uint64_t cpu_ps, wait_ps; /* which together are the total */
	uint64_t npu_ps, loader_ps, read_ps, copy_ps; /* busy */
	struct {
		PRICE_TIMES(COUNTER_MEMBER)
	} price; /* of all of it, as `tandem run --json` has them */
	uint64_t kind_ps[TRACE_KINDS]; /* on the CPU */
};

/* In the order of JSON, with these names. */
/* clang-format off */
#define TRACE_SUMS(X)                                                         \
	X(uint64_t, texts) X(uint64_t, prompt_tokens)                         \
	X(uint64_t, texts_ns) /* or, without texts, of all */                 \
	X(uint64_t, passes) X(uint64_t, rows) X(uint64_t, padded_rows)        \
	X(uint64_t, round_trips) X(uint64_t, unanswered) /* requests */       \
	X(uint64_t, lost) X(uint64_t, restarts)                               \
	X(uint64_t, round_trip_ns) /* from publish to completion, added up */ \
	TRACE_DONE(X)                                                         \
	/* while the device did nothing (no request was under way, where it   \
	 * did not tell); how often, and for how long at most */              \
	X(uint64_t, bubbles) X(uint64_t, bubble_ns)                           \
	X(uint64_t, longest_bubble_ns)                                        \
	X(uint64_t, device_ns) /* while the device was at work */             \
	X(uint64_t, events_lost) /* for which the device had no room */       \
	X(uint64_t, put_aside) /* packets before this file, for its limit */  \
	/* of all texts that were submitted, the wait for their turn */       \
	X(uint64_t, queued) X(uint64_t, queued_ns)                            \
	/* of device_ns, while the host worked */                             \
	X(uint64_t, host_beside_ns)                                           \
	X(uint64_t, flash_reads) X(uint64_t, flash_bytes)                     \
	/* while flash read; of that while the device was at work */          \
	X(uint64_t, flash_ns) X(uint64_t, flash_beside_ns)
/* clang-format on */

struct trace_sum {
	TRACE_SUMS(COUNTER_MEMBER)
	struct trace_work work[TIMELINE_ROLES][TRACE_KINDS];
	bool device_told; /* any event */
	/* Requests that took longest, the longest first. */
	size_t longest[TRACE_LONGEST];
	unsigned n_longest;
	struct trace_phone phone;
};

int trace_sum(struct trace_sum *out, const struct timeline *, struct err *);

#endif
