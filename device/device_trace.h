/*
 * The device's trace (ipc/trace_ring.h): events with a name, a time and
 * numbers, if the host requested a trace in the handshake. If the host
 * requested none, the pointer to the trace is NULL, and the only cost is a
 * comparison.
 *
 * The thread that runs requests writes events; workers only record when their
 * share of the current operator began and ended.
 */
#ifndef DEVICE_DEVICE_TRACE_H
#define DEVICE_DEVICE_TRACE_H

#include "base/clock.h"
#include "ipc/trace_ring.h"

#include <stdatomic.h>
#include <stdint.h>

/* The times at which a worker began and ended its share of an operator; `begin`
 * is 0 if the worker had no share. */
struct device_trace_share {
	_Alignas(64) uint64_t begin, end;
};

struct device_trace {
	struct trace_ring ring;
	/* number of threads that compute an operator together */
	unsigned workers;
	/* The DMA copies of the current operator: their total time, the time
	 * when the first copy began (0: no copy), and the time when the latest
	 * copy so far ended. */
	_Atomic uint64_t copied_ns, copy_began, copy_ended;
	struct device_trace_share share[WIRE_TRACE_LOADER];
};

static inline uint64_t device_trace_now(const struct device_trace *t)
{
	return t ? clock_ns() : 0;
}

/* Record work that ends now, on the thread that runs requests. `name` is a
 * string literal; `depth` is the nesting depth of the work, from 0. Does
 * nothing if the trace is NULL; the trace passed to the following functions
 * must not be NULL. */
void device_trace_ended(struct device_trace *, enum wire_trace_kind,
	const char *name, unsigned depth, uint64_t begin, uint64_t a,
	uint64_t b, uint64_t c);

/* Record work from `begin` to `end` on a lane (a line of the timeline) of the
 * trace; lane 0 is the thread that runs requests. The work is not recorded if
 * the ring is full. */
void device_trace_on(struct device_trace *, unsigned lane, unsigned depth,
	enum wire_trace_kind, const char *name, uint64_t begin, uint64_t end,
	uint64_t a, uint64_t b, uint64_t c);

/* Record a DMA copy of the current operator. Any worker may call this. */
void device_trace_copied(struct device_trace *, uint64_t begin, uint64_t end);

/* Record that the operator that began at `begin` ends now. Also record the
 * operator's DMA reads and its workers' shares. Returns the current time. */
uint64_t device_trace_operator(struct device_trace *, const char *name,
	int layer, uint64_t begin, uint64_t dma_bytes);

#endif
