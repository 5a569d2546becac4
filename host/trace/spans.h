/*
 * Sets of stretches of time: added in any order, then made into ones that
 * neither touch nor overlap, which can be measured and held against one
 * another.
 */
#ifndef HOST_TRACE_SPANS_H
#define HOST_TRACE_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t from, to;
};

/* All zero is an empty one. */
struct spans {
	struct span *span;
	size_t n, room;
};

/* 0 or -ENOMEM; an empty stretch is none. */
int spans_add(struct spans *, uint64_t from, uint64_t to);
/* What was added until now, in order and joined. */
void spans_join(struct spans *);
void spans_release(struct spans *);

/* Of joined ones: how long they are together; and of what both have. */
uint64_t spans_length(const struct spans *);
uint64_t spans_common(const struct spans *, const struct spans *);
/* What of `whole` is not in `of`, added to *out. */
int spans_without(
	struct spans *out, const struct spans *whole, const struct spans *of);

#endif
