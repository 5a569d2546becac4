/*
 * Timelines of a benchmark that opens several pairs, one after another or
 * beside each other: a file has one pair's. No thread but its caller's.
 */
#ifndef HOST_BENCH_BENCH_TRACE_H
#define HOST_BENCH_BENCH_TRACE_H

#include <limits.h>

struct bench_trace {
	unsigned pairs; /* that were opened */
	char path[PATH_MAX];
};

/* Of the next pair, until that of the one behind it is asked for: `file` for
 * the first, file.2 for the second; NULL where `file` is. */
const char *bench_trace_next(struct bench_trace *, const char *file);

#endif
