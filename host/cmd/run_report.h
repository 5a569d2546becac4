/*
 * What a run did, for people (text on stderr) and for programs (one JSON
 * object). All times are of the wall clock.
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
	uint64_t begin_ns; /* clock_ns: the command began */
};

void report_text(const struct run_report *, FILE *);

/* One line; text is valid UTF-8. 0 or -ENOMEM or -EIO. */
int report_json(const struct run_report *, const struct strbuf *text, FILE *);

#endif
