/*
 * An event as a packet of a trace, and the numbers by which it calls names. All
 * that a run tells comes through here, so it is the one message that is not put
 * together field by field (host/trace/proto_write.h): what it may have is
 * known, and so is how much that can be. No state; any thread.
 */
#ifndef HOST_TRACE_PUT_EVENT_H
#define HOST_TRACE_PUT_EVENT_H

#include "host/trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define TEXT_IID 1000 /* of the first text; below are those of names */
_Static_assert(TRACE_NAMES < TEXT_IID, "each has a number");

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

/* Bytes that a packet has at most: numbers of ten, and some of each field. */
#define PUT_EVENT_MAX (64 + 20 * (4 + TRACE_ARGS))

/* How many were put to `to`, which has room for PUT_EVENT_MAX. */
size_t put_event(uint8_t *to, uint64_t ns, uint64_t track_uuid,
	const struct trace_event *);

#endif
