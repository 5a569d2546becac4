/*
 * The report of a run: text on stderr, or one JSON object. All times are
 * wall-clock times.
 */
#ifndef HOST_CMD_RUN_REPORT_H
#define HOST_CMD_RUN_REPORT_H

#include "host/api/report.h"

#include <stdint.h>
#include <stdio.h>

struct strbuf;

struct run_report {
	const struct tandem *tandem;
	struct tandem_report of;
	const char *stop;  /* gen_stop_name, "interrupted" or "lost" */
	const char *error; /* NULL: none */
	uint64_t begin_ns; /* clock_ns at the start of the command */
};

void report_text(const struct run_report *, FILE *);

/* Print one line; text is valid UTF-8. 0, -ENOMEM or -EIO. */
int report_json(const struct run_report *, const struct strbuf *text, FILE *);

#endif
