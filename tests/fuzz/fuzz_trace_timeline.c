/*
 * Reads arbitrary bytes as a trace. They must be refused with a message, or
 * become a timeline that can be summed up, in which each slice lies within the
 * time range and within its parent. The only seed is a real trace.
 */
#include "tests/fuzz/fuzz.h"

#include "base/err.h"
#include "base/fd.h"
#include "host/trace/draw.h"
#include "host/trace/timeline.h"
#include "host/trace/trace_sum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "fuzz_trace_timeline: %s\n", what);
	abort();
}

static void check_slice(const struct timeline *t, size_t i)
{
	const struct timeline_slice *s = &t->slice[i];

	if (s->track >= t->n_track || s->name >= t->n_text ||
		s->kind >= TRACE_KINDS || s->below > i)
		die("a slice of nothing");
	if (s->end < s->begin)
		die("a slice that ends before it begins");
	if (s->below && t->slice[s->below - 1].track != s->track)
		die("a slice on two tracks");
	if (s->below && t->slice[s->below - 1].begin > s->begin)
		die("a slice outside what it lies in");
}

static FILE *nowhere(void)
{
	static FILE *f;

	if (!f && !(f = fopen("/dev/null", "we")))
		die("no /dev/null");
	return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct timeline t;
	struct trace_sum s;
	struct err e = { 0 };

	if (timeline_read(&t, data, size, &e)) {
		if (!e.text[0])
			die("refused without a sentence");
		return 0;
	}
	fuzz_got_past();
	for (size_t i = 0; i < t.n_slice; i++)
		check_slice(&t, i);
	if (trace_sum(&s, &t, &e) || draw_svg(&t, nowhere(), &e))
		die(e.text);
	draw_html(&t, nowhere());
	timeline_release(&t);
	return 0;
}

static void tell_some(struct trace *t)
{
	trace_phone(t, "soc:none");
	for (unsigned i = 0; i < 4; i++) {
		struct trace_event v = { .type = TRACE_BEGIN,
			.name = TRACE_PHONE_RUN,
			.track = TRACE_ON_PHONE_NPU,
			.at = 1000 * i,
			.n = 8,
			.arg = { 1000 * i, 500 } };

		trace_begin(t, i ? TRACE_PASS : TRACE_TEXT, i, 7);
		trace_instant(t, TRACE_PUBLISH, i, 0);
		trace_count(t, TRACE_ROWS, i);
		trace_emit(t, &v);
		v = (struct trace_event){ .type = TRACE_END,
			.name = TRACE_PHONE_RUN,
			.track = TRACE_ON_PHONE_NPU,
			.at = 1000 * i + 500 };
		trace_emit(t, &v);
	}
	for (unsigned i = 0; i < 3; i++)
		trace_end(t, TRACE_PASS);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	char path[] = "/tmp/fuzz-trace-XXXXXX", *data = NULL;
	struct err e = { 0 };
	struct trace *t = NULL;
	size_t n = 0;
	int fd;

	if (i)
		return 0;
	fd = mkstemp(path);
	if (fd < 0 || trace_open(&t, path, 0, &e))
		die("no file for a seed");
	tell_some(t);
	if (trace_close(t, &e) || fd_read_file(path, cap, &data, &n, &e))
		die(e.text);
	memcpy(buf, data, n);
	free(data);
	close(fd);
	unlink(path);
	return n;
}
