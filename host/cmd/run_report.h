/*
 * The report of `tandem run`: text on stderr, or one JSON object. All times are
 * wall-clock times, unless the report says that they are a phone's.
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
	/* why the text ended: gen_stop_name(), "interrupted", "lost" or
	 * "error" */
	const char *stop;
	const char *error; /* NULL if there was no error */
	uint64_t begin_ns; /* value of clock_ns() at the start of the command */
};

void report_text(const struct run_report *, FILE *);

/* Print the report as one line of JSON. `text` must be valid UTF-8. Returns 0,
 * -ENOMEM or -EIO. */
int report_json(const struct run_report *, const struct strbuf *text, FILE *);

#endif
