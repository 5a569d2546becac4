/*
 * Sets of time intervals: intervals are added in any order, then joined to
 * disjoint ones, which can be measured and intersected.
 */
#ifndef HOST_TRACE_SPANS_H
#define HOST_TRACE_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t from, to;
};

/* Zeroed: the empty set. */
struct spans {
	struct span *span;
	size_t n, room;
};

/* 0 or -ENOMEM; an empty interval is ignored. */
int spans_add(struct spans *, uint64_t from, uint64_t to);
/* Sort and join all intervals added so far. */
void spans_join(struct spans *);
void spans_release(struct spans *);

/* For joined sets: the total length; the length of the intersection. */
uint64_t spans_length(const struct spans *);
uint64_t spans_common(const struct spans *, const struct spans *);
/* Add the parts of `whole` that are not in `of` to *out. */
int spans_without(
	struct spans *out, const struct spans *whole, const struct spans *of);

#endif
