/*
 * Progress of long work. Libraries tell it to whoever asked for the work, who
 * decides what is seen of it; the programs draw it on standard error: one line,
 * redrawn, only on a terminal, and only once the work has lasted a second.
 * Silent in a pipe.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Who is told: what the work is (the same string until its end), how much of
 * how much (0: not known) is done; `what` is NULL when it is over, done or not.
 * tell NULL: nobody.
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

/* Who is told, in a sentence, of something that was mended and goes on. tell
 * NULL: nobody. */
struct notice_sink {
	void (*tell)(void *arg, const char *sentence);
	void *arg;
};

struct progress {
	const char *what; /* "loading weights"; not copied */
	uint64_t total;   /* 0 when not known */
	uint64_t began_ns, drawn_ns;
	bool terminal, shown;
};

void progress_begin(struct progress *, const char *what, uint64_t total);
void progress_at(struct progress *, uint64_t done);
void progress_end(struct progress *); /* wipes the line */

/* For a sink: `arg` is a struct progress, zeroed. */
void progress_draw(void *arg, const char *what, uint64_t done, uint64_t total);

#endif
