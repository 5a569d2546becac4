/*
 * The calls of tools in the answers of a chat: the members "tool_calls" of a
 * message and of a stream's delta. The caller holds the engine's lock.
 */
#ifndef HOST_SERVE_REPLY_CALLS_H
#define HOST_SERVE_REPLY_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct choice;
struct reply;

/* Whether the choice has calls, or parts of them, that were not taken yet. */
bool reply_calls_new(const struct choice *);

/* Whether the calls of the choice are complete, and there are some. */
bool reply_calls_made(const struct choice *);

/* Take the calls of choice number `i`, complete (reply_calls) or the part of
 * them that is new (reply_calls_delta). Return a JSON list. */
json_t *reply_calls(const struct reply *, size_t i);
json_t *reply_calls_delta(const struct reply *, size_t i);

#endif
