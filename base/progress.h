/*
 * Progress of long work. Libraries report it to their caller's callback; the
 * programs draw it on standard error: one line, redrawn, only on a terminal,
 * and only after the work has lasted a second.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A receiver of progress: `what` names the work (the same string until its
 * end), `done` of `total` (0: unknown) is complete. `what` is NULL at the end,
 * whether or not the work was completed. tell may be NULL.
 */
struct progress_sink {
	void (*tell)(
		void *arg, const char *what, uint64_t done, uint64_t total);
	void *arg;
};

static inline void progress_report(const struct progress_sink *s,
	const char *what, uint64_t done, uint64_t total)
{
	if (s->tell)
		s->tell(s->arg, what, done, total);
}

/* A receiver of notices: a sentence about a fault from which the program has
 * recovered. tell may be NULL. */
struct notice_sink {
	void (*tell)(void *arg, const char *sentence);
	void *arg;
};

struct progress {
	const char *what; /* "loading weights"; not copied */
	uint64_t total;   /* 0: unknown */
	uint64_t began_ns, drawn_ns;
	bool terminal, shown;
};

void progress_begin(struct progress *, const char *what, uint64_t total);
void progress_at(struct progress *, uint64_t done);
void progress_end(struct progress *); /* wipes the line */

/* For a sink: `arg` is a struct progress, zeroed. */
void progress_draw(void *arg, const char *what, uint64_t done, uint64_t total);

#endif
