/*
 * Shared by the files that read a trace: timeline_names.c reads names and
 * tracks, timeline.c the events. One thread reads. A negative return value
 * comes with a message in r->e.
 */
#ifndef HOST_TRACE_TIMELINE_IMPL_H
#define HOST_TRACE_TIMELINE_IMPL_H

#include "host/trace/proto_read.h"
#include "host/trace/timeline.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct err;

/* A text for each number of a packet: index + 1; 0: none. */
struct interned {
	uint32_t *text;
	size_t n;
};

struct reading {
	struct timeline *t;
	struct interned category, event, argument;
	struct err *e;
};

int timeline_no_memory(struct reading *); /* -ENOMEM */

/* 1 and a field, 0, or -EBADMSG: within a packet truncation is an error. */
int timeline_next(struct reading *, struct proto_in *, struct proto_field *);

/* Read the packet's messages with names, and with a track. */
int timeline_read_names(struct reading *, struct proto_in);
int timeline_read_track(struct reading *, struct proto_in);

/* The text of a number, by the packets so far. */
int timeline_named(
	struct reading *, const struct interned *, uint64_t iid, uint32_t *out);

/* NULL: no such track yet. */
struct timeline_track *timeline_find_track(struct timeline *, uint64_t uuid);

/* Room for one more element of `size` bytes; the list doubles when n is a power
 * of two. */
static inline void *timeline_grown(void *list, size_t n, size_t size)
{
	if (n && (n & (n - 1)))
		return list;
	return reallocarray(list, n ? 2 * n : 1, size);
}

/* Grow one of the timeline's lists: 0 or -ENOMEM. */
#define TIMELINE_GROW(r, field, count)                                         \
	__extension__({                                                        \
		void *more_ = timeline_grown(                                  \
			(r)->t->field, (r)->t->count, sizeof(*(r)->t->field)); \
		if (more_)                                                     \
			(r)->t->field = more_;                                 \
		more_ ? 0 : timeline_no_memory(r);                             \
	})

#endif
