/*
 * From the body of a request to what the answering takes, for every way in:
 * what ask_read leaves open is found by the model's tokenizer and context. Any
 * thread: the handle that is asked for tokens is locked here.
 */
#ifndef HOST_SERVE_ASKING_H
#define HOST_SERVE_ASKING_H

#include "host/serve/ask.h"

struct server;

/* Prompts as tokens, what may follow, a seed: 0, or *fault. */
int asking_complete(struct server *, struct ask *, struct fault *);

/* What tandem_error says of the reader, which is locked, as *fault. */
int asking_misuse(const struct server *, const char *param, struct fault *);

/* Why answering_ask gave `ret`, which is returned, as *fault. */
int asking_refused(const struct server *, int ret, struct fault *);

#endif
