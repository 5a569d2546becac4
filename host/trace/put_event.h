/*
 * Formats an event as a packet of a trace, and defines the numbers of names.
 * Since every event of a run is written here, this one message is not built
 * field by field (host/trace/proto_write.h): its fields and their largest size
 * are fixed. No state; any thread.
 */
#ifndef HOST_TRACE_PUT_EVENT_H
#define HOST_TRACE_PUT_EVENT_H

#include "host/trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define TEXT_IID 1000 /* number of the first text; smaller ones are names */
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

/* Largest size of a packet: numbers of ten bytes, and a few bytes for each
 * field. */
#define PUT_EVENT_MAX (64 + 20 * (4 + TRACE_ARGS))

/* Write to `to`, which has room for PUT_EVENT_MAX; returns the number of
 * bytes. */
size_t put_event(uint8_t *to, uint64_t ns, uint64_t track_uuid,
	const struct trace_event *);

#endif
