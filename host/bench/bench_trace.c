#include "host/bench/bench_trace.h"

#include <stddef.h>
#include <stdio.h>

const char *bench_trace_next(struct bench_trace *t, const char *file)
{
	if (!file)
		return NULL;
	if (!t->pairs++)
		return file;
	snprintf(t->path, sizeof(t->path), "%s.%u", file, t->pairs);
	return t->path;
}
