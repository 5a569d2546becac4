/*
 * The trace buffer (struct wire_trace), a ring of events. The device puts
 * events, the host takes them. The device never waits: if there is no room, the
 * device drops the event and counts the dropped event.
 *
 * In each process, one thread uses the ring. Neither process trusts the other
 * process. The device checks the header once and then reads only the host's
 * index; if the index is invalid the device treats the ring as full. The host
 * copies each event, then checks the copy.
 */
#ifndef IPC_TRACE_RING_H
#define IPC_TRACE_RING_H

#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* Bytes of a trace buffer for `room` events. */
static inline size_t trace_ring_bytes(uint32_t room)
{
	return sizeof(struct wire_trace) +
		(size_t)room * sizeof(struct wire_trace_event);
}

/* Host: initialize an empty trace buffer in zeroed memory of
 * trace_ring_bytes(room) bytes. */
void trace_ring_format(struct wire_trace *, uint32_t room);

/* The state of the trace buffer in one process, host or device. */
struct trace_ring {
	struct wire_trace *shared;
	struct wire_trace_event *event; /* [room] */
	uint32_t room;
	/* total number of events that this process put or took */
	uint64_t at;
	/* device: the number of events that the host has taken, as last read */
	uint64_t seen;
	/* Device: the number of names in the buffer, and a hash table from the
	 * address of a string literal to the number of its name. */
	unsigned names;
	struct {
		const char *literal;
		uint16_t number;
	} known[2 * WIRE_TRACE_NAMES];
};

/* Attach to a trace buffer of `bytes` bytes. Returns 0, or -EPROTO if the
 * header of the buffer is not valid. */
int trace_ring_attach(
	struct trace_ring *, struct wire_trace *, size_t bytes, struct err *);

/* ---- the device ---- */

/* Get the number of a name that is a string literal. Returns 0 if there are too
 * many names. */
uint16_t trace_ring_name(struct trace_ring *, const char *literal);
/* Get the number of a name that is any other string; the string is copied. */
uint16_t trace_ring_name_copied(struct trace_ring *, const char *);

/*
 * Get the next event to write. The caller fills in all members of the event,
 * then calls trace_ring_put. Returns NULL if there is no room; the event is
 * then counted as lost.
 */
struct wire_trace_event *trace_ring_next(struct trace_ring *);
static inline void trace_ring_put(struct trace_ring *r)
{
	/* R1: pairs with the acquire load R3, so the host reads a complete
	 * event. */
	atomic_store_explicit(&r->shared->put, ++r->at, memory_order_release);
}

/* ---- the host ---- */

/*
 * Take up to `most` events, the oldest first, or none if there are fewer than
 * `least`. Returns the number of events taken, or -EPROTO if the device's index
 * is invalid.
 */
int trace_ring_take(struct trace_ring *, struct wire_trace_event *out,
	unsigned least, unsigned most);

/* Copy the name with this number to `out` and make the copy printable; "" if no
 * name has this number. */
void trace_ring_read_name(const struct trace_ring *, uint16_t number,
	char out[WIRE_TRACE_NAME_BYTES]);

/* The number of events that the device has dropped; the device itself counts
 * these events. */
static inline uint64_t trace_ring_lost(const struct trace_ring *r)
{
	return atomic_load_explicit(&r->shared->lost, memory_order_relaxed);
}

#endif
