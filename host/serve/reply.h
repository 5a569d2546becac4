/*
 * Formats answers for clients: OpenAI's JSON, complete or as events of a
 * stream, with Tandem's additions (settings, timings); and errors. Takes the
 * new output of an answer; independent of sockets. The caller holds the
 * engine's lock.
 */
#ifndef HOST_SERVE_REPLY_H
#define HOST_SERVE_REPLY_H

#include "host/serve/api_request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct answer;
struct strbuf;

/* The part of a choice that was sent. */
struct choice_sent {
	bool begun, ended;
	uint64_t characters;
};

struct reply {
	const struct api_offer *offer;
	struct answer *answer; /* borrowed */
	char id[40];
	int64_t created; /* seconds since 1970 */
	struct choice_sent *sent;
};

/* On success the caller releases it. */
int reply_init(struct reply *, const struct api_offer *, struct answer *,
	uint64_t number);
void reply_release(struct reply *);

/* Append the body of an answer that has ended. */
void reply_whole(struct reply *, struct strbuf *out);

/* Append the events since the last call; true when the last ones are
 * included. */
bool reply_events(struct reply *, struct strbuf *out);

/* {"error": ...} */
void reply_error(const struct fault *, struct strbuf *out);

/* Append JSON and release it; NULL sets out->failed. */
void reply_json(json_t *, struct strbuf *out);

/* A JSON string from bytes; invalid UTF-8 becomes U+FFFD. */
json_t *reply_text(const char *text, size_t len);

#endif
