/*
 * Reads the stream of an OpenAI-compatible server (server-sent events) as it
 * arrives: when the pieces of text come, and the numbers of tokens that the
 * server reports. Numbers are read from `usage`, and from `timings` of Tandem
 * and llama.cpp. One thread at a time uses a stream.
 */
#ifndef HOST_BENCH_SERVE_STREAM_H
#define HOST_BENCH_SERVE_STREAM_H

#include "base/err.h"
#include "base/strbuf.h"
#include "host/bench/serve_figures.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is a stream of which nothing has arrived. */
struct serve_stream {
	struct serve_answer answer; /* the caller sets sent_ns */
	struct series *gap; /* borrowed: gets the ms between two pieces */
	struct strbuf text; /* all pieces of text */
	bool ended;         /* "[DONE]" has arrived */
	/* The server's message if it reports an error; otherwise "". Without a
	 * message, the beginning of a body that is not a stream. */
	char error[ERR_TEXT_MAX];
	struct strbuf line; /* the beginning of an incomplete line */
};

/* Take the next bytes, which arrived at `now_ns` of clock_ns(). */
void serve_stream_feed(
	struct serve_stream *, const void *data, size_t n, uint64_t now_ns);

/* Take the rest after the last byte has arrived: the last line of a body that
 * is not a stream may have no newline. */
void serve_stream_finish(struct serve_stream *, uint64_t now_ns);

void serve_stream_release(struct serve_stream *);

#endif
