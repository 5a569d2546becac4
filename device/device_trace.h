/*
 * What the device tells of its work (ipc/trace_ring.h), where the host asked
 * for it at the handshake: events with a name, a time and numbers. Where it did
 * not, there is no struct device_trace, and every call here is a comparison.
 *
 * The thread that runs requests tells; workers only note when their share of
 * the operator in progress began and ended.
 */
#ifndef DEVICE_DEVICE_TRACE_H
#define DEVICE_DEVICE_TRACE_H

#include "base/clock.h"
#include "ipc/trace_ring.h"

#include <stdatomic.h>
#include <stdint.h>

/* A worker's share of an operator; begin 0: it had none. */
struct device_trace_share {
	_Alignas(64) uint64_t begin, end;
};

struct device_trace {
	struct trace_ring ring;
	unsigned workers; /* that operators are shared out to */
	/* By DMA, in this operator: how long, and when the first began (0: not
	 * at all). When the last ended, of all so far. */
	_Atomic uint64_t copied_ns, copy_began, copy_ended;
	struct device_trace_share share[WIRE_TRACE_LOADER];
};

static inline uint64_t device_trace_now(const struct device_trace *t)
{
	return t ? clock_ns() : 0;
}

/* A piece of work that ends now, on the thread that runs requests; `name` is a
 * literal. `t` is not NULL, here and below. */
void device_trace_ended(struct device_trace *, enum wire_trace_kind,
	const char *name, unsigned depth, uint64_t begin, uint64_t a,
	uint64_t b, uint64_t c);

/* The same from then until then, on another lane. */
void device_trace_on(struct device_trace *, unsigned lane, enum wire_trace_kind,
	const char *name, uint64_t begin, uint64_t end, uint64_t a, uint64_t b,
	uint64_t c);

/* DMA copied something for this operator. Any worker. */
void device_trace_copied(struct device_trace *, uint64_t begin, uint64_t end);

/* An operator has ended that began then: when it did. What DMA read for it and
 * what its workers noted is told as well. */
uint64_t device_trace_operator(struct device_trace *, const char *name,
	int layer, uint64_t begin, uint64_t dma_bytes);

/* A broken rule of the coherence contract was found. */
void device_trace_violation(struct device_trace *, const char *kind,
	const char *buffer, uint64_t from, uint64_t to, uint32_t cpu_seq);

#endif
