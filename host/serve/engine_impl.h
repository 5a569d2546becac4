/*
 * Shared by the two halves of the engine: its queue and thread (engine.c), and
 * the callbacks that the library calls while it generates text
 * (engine_callbacks.c).
 */
#ifndef HOST_SERVE_ENGINE_IMPL_H
#define HOST_SERVE_ENGINE_IMPL_H

#include "host/serve/engine.h"

/* The caller of the next three functions holds the lock. */

/* Notify the reader, unless it has left, that the answer has changed. */
void answer_wake(struct answer *);

/* Returns whether the reader has left or its client has disconnected. */
bool answer_is_unread(const struct answer *);

/* Set the answer's `late` if its deadline has passed. Returns `late`. */
bool answer_is_late(struct answer *, uint64_t now_ns);

/* Set the callbacks that the choice's request needs, with the choice as their
 * argument. The callbacks take the lock. */
void engine_set_callbacks(struct tandem_request *, struct choice *);

#endif
