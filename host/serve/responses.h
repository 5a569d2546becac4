/*
 * POST /v1/responses. A request is translated to one of a chat, and its answer
 * is written in another format (reply_responses.c). Finished responses are
 * kept in memory, so that a later request can continue the conversation
 * (previous_response_id); if there are too many, the oldest is dropped. A
 * response belongs to the API key that it was made with; for another key it
 * does not exist. Any thread may call.
 */
#ifndef HOST_SERVE_RESPONSES_H
#define HOST_SERVE_RESPONSES_H

#include "host/serve/api_request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct response_store;

/* Limits of a store: responses, and bytes of their texts. */
enum { RESPONSES_KEPT = 256, RESPONSES_BYTES = 64 << 20 };

#define RESPONSE_ID 40 /* bytes of an id with its NUL */

/* What a request for a response has besides the chat. */
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
/* Returns the JSON text of a kept response, or with `messages` that of its
 * conversation; the caller frees it. NULL if the owner has no response with the
 * id. */
char *response_store_get(
	struct response_store *, uint64_t owner, const char *id, bool messages);
/* Returns whether the owner had the response. */
bool response_store_drop(
	struct response_store *, uint64_t owner, const char *id);

/* As api_request_read, for the body of /v1/responses. */
int response_read(struct api_request *out, struct response_store *,
	uint64_t owner, const char *body, size_t len, struct fault *);

/* Replace the names of a chat's members in a fault by those of a response. */
void response_rename(struct fault *);

#endif
