/*
 * The engines of a server. There is one engine for each combination of a model
 * and of the options that requests choose (engine_choice.h); most servers have
 * only one. An engine is opened when the first request needs it: the request
 * waits, with its connection suspended. An engine is closed when it was idle
 * for some time, when other engines need its memory, or when its device is
 * lost. A later request for a closed engine waits until the engine is open
 * again.
 *
 * One thread, the keeper, opens and closes engines, one at a time. So the total
 * memory can be limited, and two models do not compete for the disk. An engine
 * is opened only if the sum of its estimated memory (tandem_need) and the
 * memory of the open engines is within the limit. To make room the keeper
 * closes idle engines, the least recently used first. If all open engines are
 * busy, the engine that has been open for the longest time yields: its running
 * requests are finished, and new requests for this engine wait. So no engine
 * waits for ever.
 *
 * A request keeps an engine open in two ways: while the request is parsed and
 * tokenized, it holds the engine; later the engine is busy with the request's
 * answer. Until the answer is sent, the request also refers to the engine's
 * entry, which has the names that the answer reports.
 */
#ifndef HOST_SERVE_ENGINES_H
#define HOST_SERVE_ENGINES_H

#include "host/serve/engine.h"
#include "host/serve/engine_choice.h"
#include "host/serve/model_list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange; /* an HTTP request and its answer (server_impl.h) */
struct server;

/* Maximum number of open engines, with or without a memory limit: each engine
 * takes a thread of the server and a device process with its threads. */
#define ENGINES_OPEN_MAX 8

enum engine_phase {
	ENGINE_UNLOADED,
	ENGINE_QUEUED, /* the engine waits until the keeper opens it */
	ENGINE_LOADING,
	ENGINE_LOADED,
	ENGINE_CLOSING,
};

/* The phases as clients see them: "unloaded", "loading" or "loaded". */
extern const char *const engine_phases[];

struct engine_entry {
	size_t model; /* index in the list of models */
	/* settings of the engine; the server's own if `chosen` is false */
	char **choice;
	bool chosen;
	struct engine_offer offer;
	/* The members below are guarded by the server's lock. */
	enum engine_phase phase;
	/* the engine of D-Bus requests: closed only with the server */
	bool pinned;
	/* the engine will be closed to make room, so new requests wait */
	bool yields;
	/* numbers that increase from engine to engine, in the order of queueing
	 * (ticket) and of opening (opened) */
	uint64_t ticket, opened;
	/* set in the phases LOADED and CLOSING, otherwise NULL */
	struct engine *engine;
	/* number of HTTP requests that refer to the entry */
	unsigned refs;
	/* number of these requests that keep the engine open (hold it) */
	unsigned holds;
	/* the HTTP requests that wait for the engine, linked by queue_next,
	 * oldest first */
	struct exchange *waiting;
	/* time of the newest of these events: the engine was opened, or a
	 * request released it */
	uint64_t used_ns;
	uint64_t need; /* estimated memory of the open engine in bytes */
	/* Sum of the counters of earlier periods in which the engine was open.
	 */
	struct engine_state past;
	struct engine_entry *next;
};

/* Facts about a model of the list, known after it was first opened. */
struct engine_facts {
	uint64_t context;
	/* attention mask: a bit of enum report_models; 0: not known yet */
	unsigned kind;
	bool chats; /* the model has a chat template */
};

struct engines {
	struct model_list models;
	bool own_models; /* `models` was filled by engines_open() */
	char **own;      /* settings for requests that choose nothing */
	struct engine_menu menu;
	/* true: the server may have several engines, so the loss of a device
	 * closes only the engine of the device; but the loss of the pinned
	 * engine's device ends the server. false: the loss of the only engine's
	 * device ends the server. */
	bool several;
	/* true: the first engine of the list was opened with the server */
	bool has_first;
	pthread_t keeper;
	bool keeps; /* the keeper's thread was started */
	pthread_cond_t work;
	/* Guarded by the server's lock. */
	struct engine_facts *facts; /* [models.n] */
	struct engine_entry *first;
	struct tandem *loading; /* the handle that the keeper starts, or NULL */
	uint64_t tickets;
	bool closing;
	struct err *why; /* first error that closing a handle has returned */
	int ret;
};

/*
 * Start the keeper. `first` is NULL, or a started handle of the first model
 * with the server's own options; `need` is the estimated memory of this handle,
 * in bytes. The server owns the handle from now on, also after a failure.
 */
int engines_open(
	struct server *, struct tandem *first, uint64_t need, struct err *);

/* End all requests: open no more engines, refuse the requests that wait for an
 * engine, and stop all engines. */
void engines_stop(struct server *);

/* Close all engines and their handles. Returns 0, or the first error of closing
 * a handle since the server was opened. */
int engines_close(struct server *, struct err *);

/*
 * Find the engine with the model, method and options that the request names,
 * and hold the engine, so that it stays open. Returns 0 with x->engine and
 * x->entry; -EINPROGRESS with x->must_wait set if the engine must be opened
 * first, see engines_wait; or another negative errno with *fault set. A request
 * that has waited for its engine already holds this engine.
 */
int engines_find(struct exchange *, const struct api_request *, struct fault *);

/*
 * Make a request wait for its engine. Returns true if the request waits: the
 * caller must not touch the exchange any more, and a background thread calls
 * the function of the request's route (struct route) when the engine is open.
 * Returns false if the engine is open already: the caller calls the function of
 * the route again.
 */
bool engines_wait(struct exchange *);

/* End the use of an engine. Call engines_release when the request was submitted
 * or refused, and engines_leave when its answer was sent or its connection has
 * broken. Both functions do nothing if the exchange uses no engine. */
void engines_release(struct exchange *);
void engines_leave(struct exchange *);

/* The engine that was opened with the server, for D-Bus; NULL if there is none.
 * engines_check_first checks that a request names no other model and chooses no
 * other options. */
struct engine *engines_first(struct server *);
int engines_check_first(
	struct server *, const struct api_request *, struct fault *);

/* To be called with the lock held. engines_lost returns whether the server must
 * end, because the device of its only engine or of the D-Bus engine is lost.
 * engines_drop_gone refuses the waiting requests whose client has disconnected.
 * engines_phase returns the most advanced phase of all engines of the model. */
bool engines_lost(struct server *);
void engines_drop_gone(struct server *);
enum engine_phase engines_phase(struct server *, size_t model);

#endif
