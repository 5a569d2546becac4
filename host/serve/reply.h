/*
 * Answers as clients get them: OpenAI's JSON, whole or as events of a stream,
 * and behind it what Tandem adds (settings, timings); errors likewise. Takes
 * what an answer has and the client was not given yet; knows no socket. The
 * lock of the answers is held by whoever calls.
 */
#ifndef HOST_SERVE_REPLY_H
#define HOST_SERVE_REPLY_H

#include "host/serve/api_request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct answer;
struct strbuf;

/* What was said of a choice. */
struct run_summary {
	bool begun, ended;
	uint64_t characters;
};

struct reply {
	const struct api_offer *offer;
	struct answer *answer; /* the caller's */
	char id[40];
	int64_t created; /* seconds since 1970 */
	struct run_summary *told;
};

/* -ENOMEM, or 0: then it is to be released. */
int reply_init(struct reply *, const struct api_offer *, struct answer *,
	uint64_t number);
void reply_release(struct reply *);

/* Of an answer that has ended: its body, appended. */
void reply_whole(struct reply *, struct strbuf *out);

/* The events since the last call, appended; true when those were the last. */
bool reply_events(struct reply *, struct strbuf *out);

/* {"error": ...} */
void reply_error(const struct fault *, struct strbuf *out);

/* JSON appended, and given back; NULL makes `out` failed. */
void reply_json(json_t *, struct strbuf *out);

/* A string of bytes that may be no UTF-8: what is none becomes U+FFFD. */
json_t *reply_text(const char *text, size_t len);

#endif
