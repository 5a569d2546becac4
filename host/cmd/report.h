/*
 * What a run did, for people (text on stderr) and for programs (one JSON
 * object). All times are of the wall clock.
 */
#ifndef HOST_CMD_REPORT_H
#define HOST_CMD_REPORT_H

#include "host/session/session.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct decoder;
struct generation;
struct strbuf;

struct run_report {
	const struct decoder *decoder;
	const struct generation *generation;
	const char *stop;  /* gen_stop_name, "interrupted" or "lost" */
	const char *error; /* NULL: none */
	/* clock_ns: the command began, the prompt went in, the last token came
	 * out. */
	uint64_t begin_ns, prompt_ns, end_ns;
	struct session_stats stats;
};

void report_text(const struct run_report *, FILE *);

/* One line; text is valid UTF-8. 0 or -ENOMEM or -EIO. */
int report_json(const struct run_report *, const struct strbuf *text, FILE *);

#endif
