/*
 * Completes a parsed request for the engine, whether it came by HTTP or D-Bus:
 * what api_request_read cannot decide depends on the model's tokenizer and
 * context. Any thread.
 */
#ifndef HOST_SERVE_PREPARE_H
#define HOST_SERVE_PREPARE_H

#include "host/serve/api_request.h"

struct server;

/* Set tokens, token limit and seed: 0, or *fault. */
int prepare_request(struct server *, struct api_request *, struct fault *);

/* Set *fault from a failure to tokenize, with its -errno and error. */
int prepare_misuse(
	int ret, const char *param, const struct err *, struct fault *);

/* Set *fault from the failure `ret` of engine_submit, and return `ret`. */
int prepare_refused(const struct server *, int ret, struct fault *);

#endif
