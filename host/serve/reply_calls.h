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

/* Whether the choice has tool calls, or parts of tool calls, that were not yet
 * taken for the reply. */
bool reply_calls_new(const struct choice *);

/* Whether the choice has calls and all of them are complete. */
bool reply_calls_made(const struct choice *);

/* Take the tool calls of choice number `i` that are new, or the new parts of
 * calls, and return them as a JSON list. With `delta`, each element has the
 * index of its call, as in a stream. */
json_t *reply_calls(const struct reply *, size_t i, bool delta);

#endif
