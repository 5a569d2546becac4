/*
 * The buffer that a device tells its work in (struct wire_trace): the device
 * puts events, the host takes them. Telling never waits: an event for which
 * there is no room is left out and counted.
 *
 * One thread at each end. Neither believes the other: the device checks what it
 * was given once and then only asks how much was taken, and an index that makes
 * no sense is a full ring to it; the host copies an event before it looks at
 * it.
 */
#ifndef IPC_TRACE_RING_H
#define IPC_TRACE_RING_H

#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* Bytes that a buffer for so many events has. */
size_t trace_ring_bytes(uint32_t room);

/* Host: an empty one, of zeroed memory of that size. */
void trace_ring_format(struct wire_trace *, uint32_t room);

/* Either end. */
struct trace_ring {
	struct wire_trace *shared;
	struct wire_trace_event *event; /* [room] */
	uint32_t room;
	uint64_t at;   /* our own index: events put, or taken */
	uint64_t seen; /* device: the host's, when it was last looked at */
	/* Device: how many names it has told, and of literals the number: at
	 * their address' hash, or behind it. */
	unsigned names;
	struct {
		const char *literal;
		uint16_t number;
	} known[2 * WIRE_TRACE_NAMES];
};

/* Of a buffer of `bytes`: 0, or -EPROTO where it is none. */
int trace_ring_attach(
	struct trace_ring *, struct wire_trace *, size_t bytes, struct err *);

/* ---- the device ---- */

/* The number of a name that lives as long as the program; 0 when there are too
 * many. */
uint16_t trace_ring_name(struct trace_ring *, const char *literal);
/* Likewise of one that does not. */
uint16_t trace_ring_name_copied(struct trace_ring *, const char *);

/* Where the next event goes, to be filled in whole and then put; NULL when
 * there is no room, which is counted. */
struct wire_trace_event *trace_ring_next(struct trace_ring *);
void trace_ring_put(struct trace_ring *);

/* ---- the host ---- */

/* At most so many events, the oldest first, or none where there are fewer than
 * `least`: how many, or -EPROTO: the device's index is absurd. */
int trace_ring_take(struct trace_ring *, struct wire_trace_event *out,
	unsigned least, unsigned most);

/* Of a number, printable; "" for none. */
void trace_ring_read_name(const struct trace_ring *, uint16_t number,
	char out[WIRE_TRACE_NAME_BYTES]);

/* Events left out so far, as the device counts. */
uint64_t trace_ring_lost(const struct trace_ring *);

#endif
