/*
 * A trace summed up (host/trace/trace_sum.h) as `tandem trace` shows it: text
 * for people, or a JSON object.
 */
#ifndef HOST_CMD_TRACE_REPORT_H
#define HOST_CMD_TRACE_REPORT_H

#include <stdio.h>

struct timeline;
struct trace_sum;

void trace_report_text(const char *path, const struct timeline *,
	const struct trace_sum *, FILE *);
/* 0, or -ENOMEM or -EIO. */
int trace_report_json(const char *path, const struct timeline *,
	const struct trace_sum *, FILE *);

#endif
