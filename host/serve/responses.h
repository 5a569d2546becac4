/*
 * POST /v1/responses. A request is translated to a chat request, and the answer
 * is written in the format of the Responses API (reply_responses.c). Finished
 * responses are kept in memory, so that a later request can continue the
 * conversation (previous_response_id); if there are too many responses, the
 * oldest is dropped. A response belongs to the API key of the request that made
 * it; a client with another key cannot read the response. Any thread may call.
 */
#ifndef HOST_SERVE_RESPONSES_H
#define HOST_SERVE_RESPONSES_H

#include "host/serve/api_request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct response_store;

/* Limits of a store: number of responses, and total bytes of their JSON texts.
 */
enum { RESPONSES_KEPT = 256, RESPONSES_BYTES = 64 << 20 };

#define RESPONSE_ID 40 /* size of the buffer for an id, in bytes */

/* The part of a request to /v1/responses that a chat request does not have. */
struct response {
	struct response_store *store; /* NULL if the response is not kept */
	uint64_t
		owner; /* number of the API key (client_id.h); 0 without keys */
	char id[RESPONSE_ID];
	json_t *echo; /* members of the request that the response repeats */
	/* the conversation as messages of a chat, without the instructions */
	json_t *messages;
};

void response_release(struct response *);

int response_store_open(struct response_store **out);
void response_store_close(struct response_store *);

/* Keep a finished response: its JSON text and the conversation, which includes
 * the answer. A response that cannot be kept for lack of memory is dropped. */
void response_store_put(struct response_store *, uint64_t owner, const char *id,
	const char *object, size_t len, const json_t *messages);
/* Returns the JSON text of a kept response, or, if `messages` is set, the JSON
 * text of its conversation; the caller frees the text. NULL if the owner has no
 * response with the id. */
char *response_store_get(
	struct response_store *, uint64_t owner, const char *id, bool messages);
/* Delete a kept response. Returns whether the owner had a response with the id.
 */
bool response_store_drop(
	struct response_store *, uint64_t owner, const char *id);

/* Like api_request_read, for the body of a request to /v1/responses. */
int response_read(struct api_request *out, struct response_store *,
	uint64_t owner, const char *body, size_t len, struct fault *);

/* Replace the names of a chat's members in a fault by the names of the same
 * members in a request to /v1/responses. */
void response_rename(struct fault *);

#endif
