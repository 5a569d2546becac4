/*
 * Formats answers and errors for HTTP clients: OpenAI's JSON, as one object or
 * as the events of a stream, with Tandem's additions (settings and timings).
 * The functions move new output from an answer to the caller's buffer; the
 * functions do not use sockets. The caller of a function with a struct reply
 * holds the answer's lock.
 */
#ifndef HOST_SERVE_REPLY_H
#define HOST_SERVE_REPLY_H

#include "host/api/tandem.h"
#include "host/serve/api_request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct answer;
struct engine_offer;
struct strbuf;

/* The part of a choice that was already sent. */
struct choice_sent {
	bool begun, ended;
	/* number of the text's characters that were sent */
	uint64_t characters;
};

struct reply {
	const struct engine_offer *offer;
	struct answer *answer; /* borrowed */
	char id[40];
	int64_t created;          /* seconds since 1970 */
	struct choice_sent *sent; /* [answer->n_choices] */
	/* set for a request to /v1/responses; otherwise NULL */
	struct response_writer *writer;
};

/* `number` makes the answer's id unique. Returns 0, and the caller releases the
 * reply at the end; or -ENOMEM. */
int reply_init(struct reply *, const struct engine_offer *, struct answer *,
	uint64_t number);
void reply_release(struct reply *);

/* Append an answer that has ended, as one JSON object. reply_embeddings is the
 * same for a request for embeddings. */
void reply_whole(struct reply *, struct strbuf *out);
void reply_embeddings(struct reply *, struct strbuf *out);

/* Append events with all output since the previous call. Returns true if the
 * appended events include the last event of the stream. */
bool reply_events(struct reply *, struct strbuf *out);

/* Append an error as the last events of a stream. */
void reply_error_event(const struct fault *, struct strbuf *out);

/* Combine the results of all texts of an answer. Counters are summed, but the
 * tokens of each prompt are counted once. Passes and times are the maximum over
 * the texts, because the texts run at the same time. */
struct tandem_result reply_result(const struct answer *);

/* Add "settings" and "timings", the last members of every answer. */
void reply_add_end(const struct reply *, json_t *object);

/* Append the JSON object of an error. */
void reply_error(const struct fault *, struct strbuf *out);

/* Append the JSON value as text and release the value. Sets out->failed if the
 * value is NULL, or if json_memory_refused reports a failed allocation. */
void reply_json(json_t *, struct strbuf *out);

/* Returns a JSON string of the bytes, with U+FFFD for invalid UTF-8; NULL if
 * there is no memory. */
json_t *reply_text(const char *text, size_t len);

#endif
