/*
 * Declarations shared by the files that read a trace: timeline_names.c reads
 * names and tracks, timeline.c reads events. All calls are made on one thread.
 * A function that returns a negative value has set a message in r->e.
 */
#ifndef HOST_TRACE_TIMELINE_IMPL_H
#define HOST_TRACE_TIMELINE_IMPL_H

#include "host/trace/proto_read.h"
#include "host/trace/timeline.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct err;

/* For each number that packets use for a name: the index of the name in
 * timeline.text, plus 1; 0 if the number has no name. */
struct interned {
	uint32_t *text;
	size_t n;
};

struct reading {
	struct timeline *t;
	struct interned category, event, argument;
	struct err *e;
};

/* Get the next field. Returns 1 and the field, 0 at the end, or -EBADMSG.
 * Truncated data is an error here, because the packet as a whole is
 * complete. */
int timeline_next(struct reading *, struct proto_in *, struct proto_field *);

/* timeline_read_names reads a message with names, timeline_read_track a message
 * that describes a track. */
int timeline_read_names(struct reading *, struct proto_in);
int timeline_read_track(struct reading *, struct proto_in);

/* Look up the name to which earlier packets assigned the number iid. *out
 * receives the name's index in timeline.text. Returns 0, or -EBADMSG if the
 * number has no name. */
int timeline_named(
	struct reading *, const struct interned *, uint64_t iid, uint32_t *out);

/* Find the track with this number. Returns NULL if no track with this number
 * has been described yet. */
struct timeline_track *timeline_find_track(struct timeline *, uint64_t uuid);

/* Ensure that a list of n elements of `size` bytes has room for one more. The
 * list is doubled when n is a power of two. Returns the list, or NULL if memory
 * is short. */
static inline void *timeline_grown(void *list, size_t n, size_t size)
{
	if (n && (n & (n - 1)))
		return list;
	return reallocarray(list, n ? 2 * n : 1, size);
}

/* Make room for one more element in a list of the timeline. Yields 0 or
 * -ENOMEM. */
#define TIMELINE_GROW(r, field, count)                                         \
	__extension__({                                                        \
		void *more_ = timeline_grown(                                  \
			(r)->t->field, (r)->t->count, sizeof(*(r)->t->field)); \
		if (more_)                                                     \
			(r)->t->field = more_;                                 \
		more_ ? 0                                                      \
		      : err_set((r)->e, ENOMEM, "no memory for the trace");    \
	})

#endif
