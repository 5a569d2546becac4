/*
 * The summary of a timeline: the results of the requests, the time of each kind
 * of work on each track, the idle times of the device, and overlaps. All
 * numbers are computed from the recorded events and nothing is estimated, so
 * they can be compared with the counters of the run itself (`tandem run
 * --stats`).
 *
 * In a trace, the generation of a request is called a text. If a trace has
 * texts, only the time during texts is summed up, without the start of the
 * session. The timeline is not changed; any thread may call the function.
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
/* maximum number of operators; the device has fewer */
#define TRACE_OPERATORS 64

/* Work of one kind on all tracks of the same role. */
struct trace_work {
	uint64_t n;
	/* total time of the slices of this kind, minus the time of slices
	 * within them */
	uint64_t ns;
};

/* Sums of one operator of the device over all layers. Only the device's main
 * thread is counted; this thread also waits for the workers. `name` belongs to
 * the timeline. */
struct trace_operator {
	const char *name;
	uint64_t n;
	uint64_t ns;
	uint64_t dma_bytes;
};

struct trace_phone {
	bool there;
	/* Time on the track of the phone's CPU while requests generated text;
	 * without requests, the time of the whole track. */
	uint64_t total_ps;
	/* cpu_ps: time in which the phone's CPU worked. wait_ps: time in which
	 * the CPU waited. The sum of cpu_ps and wait_ps is total_ps. */
	uint64_t cpu_ps, wait_ps;
	/* busy times of the phone's NPU, graph loader, flash reads, and
	 * copies */
	uint64_t npu_ps, loader_ps, read_ps, copy_ps;
	struct {
		PRICE_TIMES(COUNTER_MEMBER)
	} price; /* sums of all modeled costs, as in `tandem run --json` */
	/* time of the simulated phone's CPU for each kind of work */
	uint64_t kind_ps[TRACE_KINDS];
};

/* Members of the JSON output, in this order. */
/* clang-format off */
#define TRACE_SUMS(X)                                                         \
	X(uint64_t, texts) X(uint64_t, prompt_tokens)                         \
	/* wall time of texts; without texts, of the whole trace */           \
	X(uint64_t, texts_ns)                                                 \
	X(uint64_t, passes) X(uint64_t, rows) X(uint64_t, padded_rows)        \
	/* round_trips: number of requests to the device that were answered.
	 * unanswered: number of requests that were not answered. */          \
	X(uint64_t, round_trips) X(uint64_t, unanswered)                      \
	X(uint64_t, lost) X(uint64_t, restarts)                               \
	/* total time from sending each request to its completion */           \
	X(uint64_t, round_trip_ns)                                            \
	TRACE_DONE(X)                                                         \
	/* A bubble is a time in which no request was in flight or, if the
	 * device recorded events, in which the device did nothing. bubbles:
	 * number of bubbles. bubble_ns: their total time. longest_bubble_ns:
	 * time of the longest bubble. */                                     \
	X(uint64_t, bubbles) X(uint64_t, bubble_ns)                           \
	X(uint64_t, longest_bubble_ns)                                        \
	X(uint64_t, device_ns) /* time while the device was busy */           \
	/* events that were lost because the device's event ring was full */  \
	X(uint64_t, events_lost)                                              \
	/* number of packets in earlier files (--trace-limit) */              \
	X(uint64_t, rotated)                                                  \
	/* queued: number of user requests that waited in the queue. queued_ns:
	 * their total time in the queue. */                                  \
	X(uint64_t, queued) X(uint64_t, queued_ns)                            \
	/* part of device_ns during which the host worked as well */          \
	X(uint64_t, host_beside_ns)                                           \
	X(uint64_t, flash_reads) X(uint64_t, flash_bytes)                     \
	/* flash_ns: time in which flash was reading. flash_beside_ns: part of
	 * flash_ns in which the device was busy as well. */                  \
	X(uint64_t, flash_ns) X(uint64_t, flash_beside_ns)
/* clang-format on */

struct trace_sum {
	TRACE_SUMS(COUNTER_MEMBER)
	struct trace_work work[TIMELINE_ROLES][TRACE_KINDS];
	/* operators in the order of their first run; those that do not fit are
	 * left out */
	struct trace_operator operator[TRACE_OPERATORS];
	unsigned n_operators;
	bool device_seen; /* whether the device recorded events */
	/* Indices of the slices of the longest requests to the device, in
	 * descending order of their times. */
	size_t longest[TRACE_LONGEST];
	unsigned n_longest;
	struct trace_phone phone;
};

int trace_sum(struct trace_sum *out, const struct timeline *, struct err *);

#endif
