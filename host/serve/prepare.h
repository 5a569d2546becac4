/*
 * From the body of a request to what the answering takes, for every way in:
 * what api_request_read leaves open is found by the model's tokenizer and
 * context. Any thread: the handle that is asked for tokens is locked here.
 */
#ifndef HOST_SERVE_PREPARE_H
#define HOST_SERVE_PREPARE_H

#include "host/serve/api_request.h"

struct server;

/* Prompts as tokens, what may follow, a seed: 0, or *fault. */
int prepare_request(struct server *, struct api_request *, struct fault *);

/* What tandem_error says of the reader, which is locked, as *fault. */
int prepare_misuse(const struct server *, const char *param, struct fault *);

/* Why engine_ask gave `ret`, which is returned, as *fault. */
int prepare_refused(const struct server *, int ret, struct fault *);

#endif
