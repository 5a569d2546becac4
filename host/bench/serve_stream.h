/*
 * Reads the stream of an OpenAI-compatible server (server-sent events) as it
 * arrives. Records when the pieces of text arrive, and the numbers of tokens
 * that the server reports. Numbers are read from `usage`, and from `timings` of
 * Tandem and llama.cpp. One thread at a time uses a stream.
 */
#ifndef HOST_BENCH_SERVE_STREAM_H
#define HOST_BENCH_SERVE_STREAM_H

#include "base/err.h"
#include "base/strbuf.h"
#include "host/bench/serve_figures.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A struct of zeros is a stream from which no byte has arrived yet. */
struct serve_stream {
	struct serve_answer answer; /* the caller sets sent_ns */
	/* list to which the milliseconds between consecutive pieces of text are
	 * added; borrowed; may be NULL */
	struct series *gap;
	struct strbuf text; /* all pieces of text */
	bool ended;         /* "[DONE]" has arrived */
	/* error that the server reports: its message or, without a message, the
	 * beginning of the body; "" if there is no error */
	char error[ERR_TEXT_MAX];
	/* an incomplete line, as far as it has arrived */
	struct strbuf line;
};

/* Process the next bytes, which arrived at the time `now_ns` (clock_ns()). */
void serve_stream_feed(
	struct serve_stream *, const void *data, size_t n, uint64_t now_ns);

/* Process an incomplete last line. Call this after the last byte has arrived,
 * because the last line of a body that is not a stream may have no newline. */
void serve_stream_finish(struct serve_stream *, uint64_t now_ns);

void serve_stream_release(struct serve_stream *);

#endif
