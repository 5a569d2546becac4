/*
 * Progress of long work on standard error: one line, redrawn, only on a
 * terminal, and only once the work has lasted a second. Silent in a pipe.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what; /* "loading weights"; not copied */
	uint64_t total;   /* 0 when not known */
	uint64_t began_ns, drawn_ns;
	bool terminal, shown;
};

void progress_begin(struct progress *, const char *what, uint64_t total);
void progress_at(struct progress *, uint64_t done);
void progress_end(struct progress *); /* wipes the line */

#endif
