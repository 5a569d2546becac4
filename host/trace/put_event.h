/*
 * Formats an event as a packet of a trace, and assigns numbers to names. Every
 * event of a run is formatted here, so for speed the message is not built field
 * by field with host/trace/proto_write.h: its fields and their maximum size are
 * fixed. The functions have no state and may be called on any thread.
 */
#ifndef HOST_TRACE_PUT_EVENT_H
#define HOST_TRACE_PUT_EVENT_H

#include "host/trace/trace.h"

#include <stddef.h>
#include <stdint.h>

/* number of the first name that trace_text adds; the names of enum trace_name
 * have the numbers from 1 on (name_iid) */
#define TEXT_IID 1000
_Static_assert(TRACE_NAMES < TEXT_IID, "each name has a number");

static inline uint64_t name_iid(enum trace_name name)
{
	return (uint64_t)name + 1;
}

static inline uint64_t kind_iid(enum trace_kind kind)
{
	return (uint64_t)kind + 1;
}

static inline uint64_t argument_iid(enum trace_name name, unsigned i)
{
	return (uint64_t)name * TRACE_ARGS + i + 1;
}

/* Maximum size of a packet: each number takes up to ten bytes, plus a few bytes
 * per field. */
#define PUT_EVENT_MAX (64 + 20 * (4 + TRACE_ARGS))

/* Write the packet to `to`, which must have room for PUT_EVENT_MAX bytes.
 * Returns the number of bytes written. */
size_t put_event(uint8_t *to, uint64_t ns, uint64_t track_uuid,
	const struct trace_event *);

#endif
