/*
 * File names for the traces of a benchmark that opens several host/device
 * pairs, one after another or at the same time. Each pair writes its own file.
 * Not thread-safe.
 */
#ifndef HOST_BENCH_BENCH_TRACE_H
#define HOST_BENCH_BENCH_TRACE_H

#include <limits.h>

struct bench_trace {
	unsigned pairs; /* number of names returned so far */
	char path[PATH_MAX];
};

/* Return the trace file name for the next pair: `file` for the first pair, then
 * file.2, file.3 and so on; NULL if `file` is NULL. The name is valid until the
 * next call. */
const char *bench_trace_next(struct bench_trace *, const char *file);

#endif
