/*
 * Completes a parsed request of an HTTP or D-Bus client for the engine.
 * Completing a request needs the model's tokenizer and context length, which
 * api_request_read does not know. Any thread may call.
 */
#ifndef HOST_SERVE_PREPARE_H
#define HOST_SERVE_PREPARE_H

#include "host/serve/api_request.h"

struct engine;

/* Tokenize the prompts, and set the token limit and the seed if the request
 * does not set them. Returns 0, or a negative errno with *fault set. */
int prepare_request(
	const struct engine *, struct api_request *, struct fault *);

/* Set *fault from a failure of the tokenizer: `ret` is the tokenizer's negative
 * errno; `param` is the member of the request, or NULL. Returns a negative
 * errno. */
int prepare_misuse(
	int ret, const char *param, const struct err *, struct fault *);

#endif
