/*
 * The summary of a timeline: results of the texts, the time of each kind of
 * work on each track, idle times of the device, and overlaps. Counts are those
 * of the events, so that they can be checked against a run's own counters
 * (`tandem run --stats`); nothing is estimated.
 *
 * If a trace has texts only the time of these is summed, without the start of
 * the pair. Reads the timeline; any thread.
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

/* Work of one kind on all tracks of a role. */
struct trace_work {
	uint64_t n;
	uint64_t ns; /* without nested slices of any kind */
};

struct trace_phone {
	bool there;
	/* From the beginning to the end of each text; without texts, 0 and the
	 * end of the CPU's track. */
	uint64_t total_ps;
	uint64_t cpu_ps, wait_ps; /* their sum is total_ps */
	uint64_t npu_ps, loader_ps, read_ps, copy_ps; /* busy times */
	struct {
		PRICE_TIMES(COUNTER_MEMBER)
	} price; /* total price, as in `tandem run --json` */
	uint64_t kind_ps[TRACE_KINDS]; /* of the CPU */
};

/* JSON members, in this order. */
/* clang-format off */
#define TRACE_SUMS(X)                                                         \
	X(uint64_t, texts) X(uint64_t, prompt_tokens)                         \
	X(uint64_t, texts_ns) /* without texts: of the whole trace */         \
	X(uint64_t, passes) X(uint64_t, rows) X(uint64_t, padded_rows)        \
	X(uint64_t, round_trips) X(uint64_t, unanswered) /* requests */       \
	X(uint64_t, lost) X(uint64_t, restarts)                               \
	X(uint64_t, round_trip_ns) /* publish to completion */                \
	TRACE_DONE(X)                                                         \
	/* while no request was in flight, or, if the device recorded events, \
	 * while it did nothing; how often, and the longest time */           \
	X(uint64_t, bubbles) X(uint64_t, bubble_ns)                           \
	X(uint64_t, longest_bubble_ns)                                        \
	X(uint64_t, device_ns) /* while the device was busy */                \
	X(uint64_t, events_lost) /* the ring was full */                      \
	X(uint64_t, put_aside) /* in earlier files, see --trace-limit */      \
	/* time of all submitted texts in the queue */                        \
	X(uint64_t, queued) X(uint64_t, queued_ns)                            \
	/* of device_ns, while the host worked */                             \
	X(uint64_t, host_beside_ns)                                           \
	X(uint64_t, flash_reads) X(uint64_t, flash_bytes)                     \
	/* while flash read; of that while the device was busy */             \
	X(uint64_t, flash_ns) X(uint64_t, flash_beside_ns)
/* clang-format on */

struct trace_sum {
	TRACE_SUMS(COUNTER_MEMBER)
	struct trace_work work[TIMELINE_ROLES][TRACE_KINDS];
	bool device_seen; /* the device has recorded events */
	/* The longest requests, the longest first. */
	size_t longest[TRACE_LONGEST];
	unsigned n_longest;
	struct trace_phone phone;
};

int trace_sum(struct trace_sum *out, const struct timeline *, struct err *);

#endif
