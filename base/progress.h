/*
 * Progress of long operations. Library code reports progress to a callback of
 * its caller. The programs draw the progress as one line on standard error, but
 * only if standard error is a terminal and the operation has lasted a second.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A callback for progress. `what` names the operation (the same pointer in all
 * calls of the operation), and `done` of its `total` units are complete;
 * `total` is 0 if the number is unknown. The last call of an operation has
 * `what` NULL, whether or not the operation succeeded. `report` may be NULL:
 * progress is then not reported.
 */
struct progress_sink {
	void (*report)(
		void *arg, const char *what, uint64_t done, uint64_t total);
	void *arg;
};

static inline void progress_report(const struct progress_sink *s,
	const char *what, uint64_t done, uint64_t total)
{
	if (s->report)
		s->report(s->arg, what, done, total);
}

/* A callback for notices. A notice is a sentence about a fault from which the
 * program has recovered. `report` may be NULL: notices are then dropped. */
struct notice_sink {
	void (*report)(void *arg, const char *sentence);
	void *arg;
};

struct progress {
	const char *what; /* such as "loading weights"; not copied */
	uint64_t total;   /* 0 if unknown */
	uint64_t began_ns, drawn_ns;
	bool terminal, shown;
};

void progress_begin(struct progress *, const char *what, uint64_t total);
void progress_at(struct progress *, uint64_t done);
void progress_end(struct progress *); /* erases the line */

/* Draws progress; for use as the function of a progress_sink whose `arg` is a
 * zeroed struct progress. */
void progress_draw(void *arg, const char *what, uint64_t done, uint64_t total);

#endif
