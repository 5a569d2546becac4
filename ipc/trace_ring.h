/*
 * The trace buffer (struct wire_trace), a ring: the device puts events, the
 * host takes them. The device never waits: an event without room is dropped and
 * counted.
 *
 * One thread at each end. Neither trusts the other: the device checks the
 * header once and then only reads the host's index, where an invalid one means
 * a full ring; the host copies an event before it checks the event.
 */
#ifndef IPC_TRACE_RING_H
#define IPC_TRACE_RING_H

#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* Bytes of a buffer for `room` events. */
size_t trace_ring_bytes(uint32_t room);

/* Host: initialize an empty buffer in zeroed memory of that size. */
void trace_ring_format(struct wire_trace *, uint32_t room);

/* Either end. */
struct trace_ring {
	struct wire_trace *shared;
	struct wire_trace_event *event; /* [room] */
	uint32_t room;
	uint64_t at;   /* our own index: events put, or taken */
	uint64_t seen; /* device: the host's index when last read */
	/* Device: the number of names written, and a hash table from a
	 * literal's address to its number. */
	unsigned names;
	struct {
		const char *literal;
		uint16_t number;
	} known[2 * WIRE_TRACE_NAMES];
};

/* Attach to a buffer of `bytes`: 0, or -EPROTO if it is not valid. */
int trace_ring_attach(
	struct trace_ring *, struct wire_trace *, size_t bytes, struct err *);

/* ---- the device ---- */

/* The number of a name, a string literal; 0 when there are too many names. */
uint16_t trace_ring_name(struct trace_ring *, const char *literal);
/* The number of any other string, which is copied. */
uint16_t trace_ring_name_copied(struct trace_ring *, const char *);

/* The next event: fill in all of it, then call trace_ring_put. NULL: there is
 * no room; the event is counted as lost. */
struct wire_trace_event *trace_ring_next(struct trace_ring *);
void trace_ring_put(struct trace_ring *);

/* ---- the host ---- */

/* Take up to `most` events, the oldest first, or none if there are fewer than
 * `least`. Returns their number, or -EPROTO if the device's index is invalid.
 */
int trace_ring_take(struct trace_ring *, struct wire_trace_event *out,
	unsigned least, unsigned most);

/* The name of a number, made printable; "" for none. */
void trace_ring_read_name(const struct trace_ring *, uint16_t number,
	char out[WIRE_TRACE_NAME_BYTES]);

/* Events dropped so far, by the device's count. */
uint64_t trace_ring_lost(const struct trace_ring *);

#endif
