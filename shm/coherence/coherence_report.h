/*
 * The file of coherence reports, and the suppressions.
 *
 * Each line of the file is one JSON object: a violation; a maintenance call
 * that a fault left out, with the state of its lines in the cache; at the end a
 * summary of the call sites of maintenance with their counts. docs/coherence.md
 * lists the members. The file is appended to, one whole line at a time as
 * reports arrive, so the file of a device that dies ends with its last report.
 *
 * Suppressions are lines of a text file. PATTERN (with the shell's * ? [])
 * suppresses matching reports, "only PATTERN" suppresses all reports that match
 * no such line; both match "KIND: BUFFER: OPERATOR: FUNCTION". # begins a
 * comment.
 *
 * Files are opened before the device enters its sandbox. The thread that runs
 * requests calls; coherence_report_add and _suppresses may be called by
 * workers, one at a time.
 */
#ifndef SHM_COHERENCE_COHERENCE_REPORT_H
#define SHM_COHERENCE_COHERENCE_REPORT_H

#include "shm/coherence/violation.h"

#include <stdbool.h>
#include <stdint.h>

#define COHERENCE_REPORT_LINES 10000 /* violations; the rest are counted */

struct coherence_report;
struct err;

/* `path`, `suppress`: NULL for none. */
int coherence_report_open(struct coherence_report **out, const char *path,
	const char *suppress, struct err *);
/* Write the summary, close the file and free the report. -EIO if a line could
 * not be written, now or earlier. NULL is allowed. */
int coherence_report_close(struct coherence_report *, struct err *);

/* Whether a rule suppresses this violation; counts it if so. */
bool coherence_report_suppresses(
	struct coherence_report *, const struct violation *);
void coherence_report_add(struct coherence_report *, const struct violation *,
	double maintenance_bytes_per_s, double whole_s);

/* A maintenance call; `site` is the host's function or the operator. */
struct maintenance_call {
	enum coherence_call what;
	const char *buffer, *site;
	uint64_t from, to;
	uint32_t cpu_seq; /* of an invalidation */
	const char *op;
	int layer;
	uint32_t request;
	/* Of its lines: in the cache, different from memory, and written by
	 * the device. */
	uint64_t held, differing, written;
};

/* Count a call, whether or not a fault then leaves it out. */
void coherence_report_called(
	struct coherence_report *, const struct maintenance_call *);
/* A fault left the last counted call out. */
void coherence_report_left_out(
	struct coherence_report *, const struct maintenance_call *);

#endif
