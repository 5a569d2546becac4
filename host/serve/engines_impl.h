/*
 * Shared by the list of engines (engines.c) and the thread that opens and
 * closes them (engine_keeper.c).
 */
#ifndef HOST_SERVE_ENGINES_IMPL_H
#define HOST_SERVE_ENGINES_IMPL_H

#include "host/serve/engines.h"
#include "host/serve/server_impl.h"

static inline bool entry_is_open(const struct engine_entry *e)
{
	return e->phase == ENGINE_LOADED && !e->engine->state.lost;
}

/* The function of the keeper's thread, which returns when engines.closing is
 * set. `server` is a struct server. */
void *engines_keep(void *server);

/* Close a handle. The server keeps the first error of all these calls, such as
 * violations that the coherence checker found. */
void engines_close_handle(struct engines *, struct tandem *);

/* The caller of the next functions holds the lock. */

/* Free the entry of an engine if the entry is no longer used. The counters of
 * the entry are added to another entry of the same model and method. So the
 * metrics, which are sums over all entries, never decrease. The only remaining
 * entry of a model and method, and entries with the server's own settings, are
 * not freed. */
void entry_forget_unused(struct engines *, struct engine_entry *);

/* Refuse all requests that wait for the entry's engine. */
void entry_refuse_waiting(struct engine_entry *, const struct fault *);

/* Start the thread of an engine whose handle is started. Returns 0, or a
 * negative errno with a message; then the caller still owns the handle. */
int entry_take_handle(struct server *, struct engine_entry *, struct tandem *,
	uint64_t need, struct err *);

#endif
