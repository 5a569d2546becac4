/*
 * The device's trace (ipc/trace_ring.h): events with a name, a time and
 * numbers, if the host requested a trace in the handshake. Otherwise there is
 * no struct device_trace, and a caller only compares a pointer with NULL.
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

/* Times of a worker's share of an operator; begin 0: it had no share. */
struct device_trace_share {
	_Alignas(64) uint64_t begin, end;
};

struct device_trace {
	struct trace_ring ring;
	unsigned workers; /* threads that operators are spread over */
	/* DMA copies of this operator: their total time, and when the first
	 * began (0: no copy). copy_ended: end of the latest copy so far. */
	_Atomic uint64_t copied_ns, copy_began, copy_ended;
	struct device_trace_share share[WIRE_TRACE_LOADER];
};

static inline uint64_t device_trace_now(const struct device_trace *t)
{
	return t ? clock_ns() : 0;
}

/* Work that ends now, on the thread that runs requests; `name` is a literal.
 * The trace is not NULL, here and below. */
void device_trace_ended(struct device_trace *, enum wire_trace_kind,
	const char *name, unsigned depth, uint64_t begin, uint64_t a,
	uint64_t b, uint64_t c);

/* Work from `begin` to `end` on another lane. */
void device_trace_on(struct device_trace *, unsigned lane, enum wire_trace_kind,
	const char *name, uint64_t begin, uint64_t end, uint64_t a, uint64_t b,
	uint64_t c);

/* Record a DMA copy for this operator. Any worker. */
void device_trace_copied(struct device_trace *, uint64_t begin, uint64_t end);

/* An operator that began at `begin` ends now; returns the time. Also writes the
 * events of its DMA reads and of its workers' shares. */
uint64_t device_trace_operator(struct device_trace *, const char *name,
	int layer, uint64_t begin, uint64_t dma_bytes);

/* A violation of the coherence contract. */
void device_trace_violation(struct device_trace *, const char *kind,
	const char *buffer, uint64_t from, uint64_t to, uint32_t cpu_seq);

#endif
