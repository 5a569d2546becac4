/*
 * Writes the answers of /v1/responses: one object, or named events of a stream.
 * The caller holds the engine's lock.
 */
#ifndef HOST_SERVE_REPLY_RESPONSES_H
#define HOST_SERVE_REPLY_RESPONSES_H

#include <stdbool.h>

struct fault;
struct reply;
struct response_writer;
struct strbuf;

/* Returns 0 or -ENOMEM. */
int response_writer_open(struct response_writer **out);
void response_writer_close(struct response_writer *);

/* Like reply_whole and reply_events. Both functions store the finished response
 * unless it failed or its request has "store": false. */
void response_whole(struct reply *, struct strbuf *out);
bool response_events(struct reply *, struct strbuf *out);

/* Append an error event, which is the only event of a stream whose request was
 * refused before a response existed. */
void response_error_event(const struct fault *, struct strbuf *out);

#endif
