/*
 * Sets of time intervals. Intervals can be added in any order. spans_join then
 * merges overlapping intervals, after which sets can be measured and
 * intersected.
 */
#ifndef HOST_TRACE_SPANS_H
#define HOST_TRACE_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t from, to;
};

/* A zeroed struct is the empty set. */
struct spans {
	struct span *span;
	size_t n, room;
};

/* Returns 0 or -ENOMEM. An empty interval is ignored. */
int spans_add(struct spans *, uint64_t from, uint64_t to);
/* Sort all intervals and merge those that overlap. */
void spans_join(struct spans *);
void spans_release(struct spans *);

/* Total length of a set, and total length of the intersection of two sets. The
 * sets must have been joined. */
uint64_t spans_length(const struct spans *);
uint64_t spans_common(const struct spans *, const struct spans *);
/* Add to *out the parts of `whole` that are not in `of`. Both sets must have
 * been joined. */
int spans_without(
	struct spans *out, const struct spans *whole, const struct spans *of);

#endif
