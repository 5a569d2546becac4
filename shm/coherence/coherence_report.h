/*
 * The file of coherence reports, and the suppressions.
 *
 * Each line of the file is one JSON object: either a violation, or a
 * maintenance call that an injected fault omitted, with counts of the affected
 * cache lines. The last line is a summary: the number of maintenance calls that
 * each function or operator caused. docs/coherence.md lists the members. Each
 * report is appended as one whole line when it arrives, so if the device dies,
 * the file ends with the last report.
 *
 * Suppressions are lines of a text file. A line PATTERN, with wildcards as in
 * the shell, suppresses reports that match the pattern. If there are lines
 * "only PATTERN", reports that match none of these lines are suppressed, too.
 * If a report matches several lines of either kind, the last of them applies.
 * Patterns are compared with "KIND: BUFFER: OPERATOR: FUNCTION". # begins a
 * comment.
 *
 * Files are opened before the device enters its sandbox. Only the thread that
 * runs requests calls these functions, except that workers may call
 * coherence_report_add and coherence_report_suppresses, one at a time.
 */
#ifndef SHM_COHERENCE_COHERENCE_REPORT_H
#define SHM_COHERENCE_COHERENCE_REPORT_H

#include "shm/coherence/violation.h"

#include <stdbool.h>
#include <stdint.h>

/* largest number of violations in the file; further violations are only
 * counted */
#define COHERENCE_REPORT_LINES 10000

struct coherence_report;
struct err;

/* `path` and `suppress` may be NULL: no file, no suppressions. */
int coherence_report_open(struct coherence_report **out, const char *path,
	const char *suppress, struct err *);
/* Write the summary, close the file and free the struct. Returns 0, or -EIO if
 * the summary or an earlier line could not be written. NULL is allowed. */
int coherence_report_close(struct coherence_report *, struct err *);

/* Whether the lines of the suppression file suppress this violation. If so, the
 * violation is counted as suppressed. */
bool coherence_report_suppresses(
	struct coherence_report *, const struct violation *);
void coherence_report_add(struct coherence_report *, const struct violation *,
	double maintenance_bytes_per_s, double whole_s);

/* A maintenance call. `site` is the host's function that wrote the range or, if
 * this function is unknown, the device's operator that made the call. */
struct maintenance_call {
	enum coherence_call what;
	const char *buffer, *site;
	uint64_t from, to;
	/* number of the bracket (buffer_begin to buffer_end) in which the CPU
	 * wrote; for invalidations only */
	uint32_t cpu_seq;
	const char *op;
	int layer;
	uint32_t request;
	/* numbers of lines of the range. `held`: in the cache; `differing`: in
	 * the cache, with other bytes than memory; `written`: written by the
	 * device but not cleaned */
	uint64_t held, differing, written;
};

/* Count a maintenance call. Called also if an injected fault then omits the
 * call. */
void coherence_report_called(
	struct coherence_report *, const struct maintenance_call *);
/* Add a line to the file: an injected fault omitted the call that
 * coherence_report_called has counted most recently. */
void coherence_report_left_out(
	struct coherence_report *, const struct maintenance_call *);

#endif
