/*
 * The file of coherence reports, and what is not to be reported.
 *
 * Each line of the file is one JSON object: a violation; a call of maintenance
 * that was left out on order, with what the cache held of it; at the end a
 * summary with every place that called for maintenance and how often.
 * docs/coherence.md has the members. Lines are added to what is there, whole,
 * as they come, so that the file of a device that dies ends with the last of
 * them.
 *
 * Suppressions are lines of a text file: a pattern (as of the shell, * ? [])
 * for "KIND: BUFFER: OPERATOR: FUNCTION" suppresses, "only PATTERN" suppresses
 * all that no such line fits; # begins a comment.
 *
 * Files are opened before the device confines itself. The running thread calls;
 * coherence_report_add and _suppresses may be called by workers, one at a time.
 */
#ifndef DEVICE_COHERENCE_REPORT_H
#define DEVICE_COHERENCE_REPORT_H

#include "device/fault.h"
#include "device/violation.h"

#include <stdbool.h>
#include <stdint.h>

#define COHERENCE_REPORT_LINES 10000 /* violations; the rest are counted */

struct coherence_report;
struct err;

/* `path`, `suppress`: NULL for none. */
int coherence_report_open(struct coherence_report **out, const char *path,
	const char *suppress, struct err *);
/* With the summary. What could not be written is said here; freed in any
 * case. NULL is allowed. */
int coherence_report_close(struct coherence_report *, struct err *);

/* Counted, when it does. */
bool coherence_report_suppresses(
	struct coherence_report *, const struct violation *);
void coherence_report_add(struct coherence_report *, const struct violation *,
	double maintenance_bytes_per_s);

/* A call of maintenance: by which function of the host, or which operator. */
struct maintenance_call {
	enum fault_maintenance what;
	const char *buffer, *site;
	uint64_t from, to;
	uint32_t cpu_seq; /* of an invalidation */
	const char *op;
	int layer;
	uint32_t request;
	/* Lines of it that the cache has, those that memory differs from, and
	 * those that the device wrote. */
	uint64_t held, differing, written;
};

/* It was asked for; whether it is made is the fault's. */
void coherence_report_called(
	struct coherence_report *, const struct maintenance_call *);
/* The one asked for last was left out. */
void coherence_report_left_out(
	struct coherence_report *, const struct maintenance_call *);

#endif
