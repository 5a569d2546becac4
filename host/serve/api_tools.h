/*
 * The tools of a chat request: the members "tools" and "tool_choice", and
 * messages with calls and results. The library (tandem.h) checks the
 * definitions of the tools. Any thread may call.
 */
#ifndef HOST_SERVE_API_TOOLS_H
#define HOST_SERVE_API_TOOLS_H

#include "host/serve/api_request.h"

struct api_member;

/* Check and store the member "tools" or "tool_choice", whose value is `v`. The
 * two functions are values of api_member.take. `v` must stay valid as long as
 * the request. */
int api_tools_take(struct api_request *, const struct api_member *,
	const json_t *v, struct fault *);
int api_tools_take_choice(struct api_request *, const struct api_member *,
	const json_t *v, struct fault *);

/* Check the members about tools for contradictions, after all members of the
 * request were taken. */
int api_tools_check(struct api_request *, struct fault *);

/* Number of turns that a message becomes: one for the message itself, and one
 * for each call of its "tool_calls". */
size_t api_tools_turns(const json_t *message);

/* Set turn[0], turn[1] ... to the tool calls of `message`, which is element i
 * of the body's "messages". */
int api_tools_take_calls(
	struct api_turn *turn, const json_t *message, size_t i, struct fault *);

/* `message`, element i of the body's "messages", is the result of a tool call:
 * store the id of this call in the turn. */
int api_tools_take_result(
	struct api_turn *, const json_t *message, size_t i, struct fault *);

/* In the n turns of a chat, bring the results of tool calls into the order of
 * the calls, and check that each call has a result. */
int api_tools_pair(struct api_turn *turn, size_t n, struct fault *);

/* If the fault's text names a part of "tools", such as "tools[1].function", or
 * "tool_choice", set the fault's param to this name. */
void api_tools_blame(struct fault *);

#endif
