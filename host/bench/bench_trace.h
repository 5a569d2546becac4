/*
 * File names for the traces of a benchmark that opens several pairs, one after
 * another or at the same time: each pair writes a file of its own. For one
 * thread.
 */
#ifndef HOST_BENCH_BENCH_TRACE_H
#define HOST_BENCH_BENCH_TRACE_H

#include <limits.h>

struct bench_trace {
	unsigned pairs; /* opened so far */
	char path[PATH_MAX];
};

/* The name for the next pair, valid until the next call: `file` for the first,
 * file.2 for the second; NULL if `file` is. */
const char *bench_trace_next(struct bench_trace *, const char *file);

#endif
