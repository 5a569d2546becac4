#include "base/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

#define FIRST_NS 1000000000u
#define AGAIN_NS 100000000u

void progress_begin(struct progress *p, const char *what, uint64_t total)
{
	*p = (struct progress){ .what = what,
		.total = total,
		.began_ns = clock_ns(),
		.terminal = isatty(STDERR_FILENO) };
}

void progress_at(struct progress *p, uint64_t done)
{
	uint64_t now;

	if (!p->terminal)
		return;
	now = clock_ns();
	if (now - p->began_ns < FIRST_NS || now - p->drawn_ns < AGAIN_NS)
		return;
	p->drawn_ns = now;
	p->shown = true;
	if (p->total)
		fprintf(stderr, "\r%s %3u %%", p->what,
			(unsigned)((double)done * 100.0 / (double)p->total));
	else
		fprintf(stderr, "\r%s %llu", p->what, (unsigned long long)done);
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}

void progress_draw(void *arg, const char *what, uint64_t done, uint64_t total)
{
	struct progress *p = arg;

	if (what && p->what != what)
		progress_begin(p, what, total);
	if (what)
		progress_at(p, done);
	else
		progress_end(p);
	p->what = what;
}
