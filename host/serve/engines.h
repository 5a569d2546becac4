/*
 * The engines of a server. There is one for each combination of a model and of
 * the options that requests choose (engine_choice.h); most servers have one
 * only. An engine is opened when the first request needs it: the request waits,
 * with its connection suspended. An engine is closed when it was idle for some
 * time, when others need its memory, or when its device is lost; a request that
 * comes then waits until it is open again.
 *
 * One thread, the keeper, opens and closes engines, one at a time: so the
 * memory of all can be bounded, and two models do not compete for the disk. An
 * engine is opened only if its estimated memory (tandem_need) and that of the
 * open engines is within the bound. To make room the keeper closes idle
 * engines, the least recently used first. If only busy ones are left, the one
 * that is open for the longest time yields: its requests are finished, new ones
 * wait. So no engine waits for ever.
 *
 * A request uses an engine in two ways. While it is parsed and tokenized it
 * holds the engine, which stays open; later the engine is busy with its answer.
 * And until its answer is sent it refers to the engine's entry, which has the
 * names that the answer reports.
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

struct api_request;
struct err;
struct exchange;
struct fault;
struct server;

/* Maximum of open engines, with or without a bound of memory: each is a pair of
 * processes with threads. */
#define ENGINES_OPEN_MAX 8

enum engine_phase {
	ENGINE_UNLOADED,
	ENGINE_QUEUED, /* the keeper is to open it */
	ENGINE_LOADING,
	ENGINE_LOADED,
	ENGINE_CLOSING,
};

/* For clients: "unloaded", "loading" or "loaded". */
extern const char *const engine_phases[];

struct engine_entry {
	size_t model;  /* index in the list of models */
	char **choice; /* the server's own if not `chosen` */
	bool chosen;
	struct engine_offer offer;
	/* The rest is guarded by the server's lock. */
	enum engine_phase phase;
	bool pinned;              /* it is never closed before the server */
	bool yields;              /* it makes room: new requests wait */
	uint64_t ticket, opened;  /* the order of queueing and of opening */
	struct engine *engine;    /* with LOADED and CLOSING */
	unsigned refs;            /* exchanges that refer to the entry */
	unsigned holds;           /* of them, those that hold the engine */
	struct exchange *waiting; /* linked by queue_next, oldest first */
	uint64_t used_ns;         /* when it was last held */
	uint64_t need;            /* estimated memory in bytes, while open */
	unsigned lanes;           /* texts that it runs at a time */
	/* Counters of the times when it was open before. */
	struct engine_state past;
	struct engine_entry *next;
};

/* Facts about a model of the list, known after it was first opened. */
struct engine_facts {
	uint64_t context;
	unsigned kind; /* a bit of enum report_models; 0: not known yet */
	bool chats;    /* the model has a chat template */
};

struct engines {
	struct model_list models;
	bool own_models; /* `models` was made here */
	char **own;      /* the choice of requests that choose nothing */
	struct engine_menu menu;
	/* Whether there may be several: then a lost device closes its engine,
	 * otherwise it ends the server. */
	bool several;
	bool has_first; /* the first model was opened with the server */
	pthread_t keeper;
	bool keeps; /* the keeper runs */
	pthread_cond_t work;
	/* Guarded by the server's lock. */
	struct engine_facts *facts; /* [models.n] */
	struct engine_entry *first;
	struct tandem *loading; /* the handle that the keeper starts, or NULL */
	uint64_t tickets;
	bool closing;
	struct err *why; /* the first error of closing a handle */
	int ret;
};

/*
 * Start the keeper. `first` is a started handle of the first model with the
 * server's own options, whose estimated memory is `need`, or NULL. The server
 * owns the handle from now on, also after a failure.
 */
int engines_open(
	struct server *, struct tandem *first, uint64_t need, struct err *);

/* End all requests: no engine is opened any more, those that wait are refused,
 * and all engines are stopped. */
void engines_stop(struct server *);

/* Close all engines and their handles. Returns 0, or the first error of closing
 * a handle since the server was opened. */
int engines_close(struct server *, struct err *);

/*
 * Find the engine with the model, method and options that the request names,
 * and hold it. Returns 0 with x->engine and x->entry; -EINPROGRESS with
 * x->must_wait set if the engine must be opened first, see engines_wait; or
 * another negative errno with *fault set. A request that has waited holds its
 * engine already.
 */
int engines_find(struct exchange *, const struct api_request *, struct fault *);

/*
 * Let a request wait for its engine; the caller must not touch the exchange any
 * more. When the engine is open, the route's function is called on a background
 * thread. Returns false if the engine is open: the caller then calls the
 * route's function again.
 */
bool engines_wait(struct exchange *);

/* End the use of an engine: engines_release when the request was submitted or
 * refused, engines_leave when its answer was sent or its connection has broken.
 * Both may be called without use. */
void engines_release(struct exchange *);
void engines_leave(struct exchange *);

/* The engine that was opened with the server, for D-Bus; NULL if there is
 * none. engines_check_first checks that a request names nothing else. */
struct engine *engines_first(struct server *);
int engines_check_first(
	struct server *, const struct api_request *, struct fault *);

/* To be called with the lock held. engines_lost: whether the server must end,
 * because the device of its only engine is lost. engines_drop_gone: refuse the
 * waiting requests whose client has disconnected. engines_phase: the phase of a
 * model, the most advanced one of its engines. */
bool engines_lost(struct server *);
void engines_drop_gone(struct server *);
enum engine_phase engines_phase(struct server *, size_t model);

#endif
