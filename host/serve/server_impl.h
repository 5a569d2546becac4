/*
 * Shared by the files of the server: the server itself, and the exchange, which
 * is one HTTP request and its answer. Only the thread of libmicrohttpd, called
 * the connection thread or HTTP thread, uses an exchange, with two exceptions:
 * the members that the server's lock guards, and the time while `preparing` is
 * set, when a background thread uses it.
 */
#ifndef HOST_SERVE_SERVER_IMPL_H
#define HOST_SERVE_SERVER_IMPL_H

#include "base/strbuf.h"
#include "host/serve/engines.h"
#include "host/serve/api_key.h"
#include "host/serve/api_request.h"
#include "host/serve/httpd.h"
#include "host/serve/listening.h"
#include "host/serve/reply.h"
#include "host/serve/responses.h"
#include "host/serve/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bus;
struct exchange;

struct route {
	/* A path that ends with a slash, other than "/", stands for all paths
	 * that continue it with a name. */
	const char *method, *path;
	bool open; /* an API key is not needed */
	/* Handles a complete request: fills `out` and `type` of the exchange,
	 * or sets `fault`, or submits a request to the engine and sets
	 * `answer`. With the method POST it may run on any thread. */
	void (*answer)(struct exchange *);
	enum api_kind kind; /* kind of the request in the body */
};

/*
 * A connection, from its start to its end. The server shuts down connections
 * without a complete request for too long a time. The timeout of libmicrohttpd
 * is used only while an answer is sent: it does not limit a client that sends a
 * request one byte at a time, and it may close a connection whose next request
 * has arrived but was not read.
 */
struct client {
	int fd;
	bool answered;     /* a request is complete and is being answered */
	bool begun;        /* a first request, or the rest of one, is awaited */
	bool late;         /* its request was late at the last check */
	bool shut;         /* it was shut down */
	uint64_t since_ns; /* when `answered` was set to its present value */
	struct client *prev, *next;
};

enum {
	ROUTES_MAX = 16,
	STATUSES = 12 /* different status codes that metrics count */
};

/*
 * A body of up to BODY_QUICK bytes is parsed and tokenized on the connection
 * thread, which takes at most about 10 ms. A larger body may take seconds, in
 * which the connection thread would serve no other client, so a background
 * thread (background.c) handles the request while its connection is suspended.
 * With several background threads one large body does not delay all other large
 * ones. The number of threads bounds the memory in use: tokenizing needs up to
 * 100 bytes for each byte of the body.
 */
#define BODY_QUICK         ((size_t)16 << 10)
#define BACKGROUND_THREADS 4

struct background {
	pthread_t thread[BACKGROUND_THREADS];
	unsigned n; /* threads that were started */
	pthread_mutex_t lock;
	pthread_cond_t work; /* the queue or `closing` has changed */
	/* Guarded by the lock. */
	struct exchange *first; /* the queue, linked by queue_next */
	bool closing;           /* background_close was called */
};

struct server {
	struct server_options options;
	pthread_mutex_t keys_lock; /* guards `keys` */
	struct api_keys keys;
	struct listening listening;
	/* Guards all answers of engines, and the lists of exchanges and
	 * connections. */
	pthread_mutex_t lock;
	struct engines engines;
	struct response_store *responses;
	struct background background;
	struct MHD_Daemon *http; /* NULL without HTTP */
	struct bus *bus;         /* NULL without D-Bus */
	uint64_t began_ns;
	int64_t created;         /* start in seconds since 1970 */
	_Atomic uint64_t number; /* answers that were ever begun */
	/* For the connection thread only: the status codes in use, and the
	 * number of answers of each route with each of them. */
	int status[STATUSES];
	uint64_t answered[ROUTES_MAX][STATUSES];
	atomic_bool ending; /* no new requests are accepted */
	bool hurried;       /* a second signal has arrived */
	/* Guarded by the lock: lists of all exchanges and all connections. */
	struct exchange *first;
	struct client *clients;
	/* Clients that were dropped because they read nothing of their answer
	 * for --idle, and because their request was not complete in time. */
	uint64_t dropped_unread, dropped_incomplete;
};

struct exchange {
	struct server *server;
	/* The engine that the request names, while the request holds it, and
	 * its entry until the answer is sent (engines.h); NULL before. */
	struct engine *engine;
	struct engine_entry *entry;
	bool held;
	/* The engine must be opened before the request can go on. */
	bool must_wait;
	bool waited; /* the request has waited for its engine */
	/* the waiting request wants a stream; a stream of a response */
	bool wants_stream, wants_response;
	struct MHD_Connection *connection;
	const struct route *route; /* NULL if no route fits */
	char name[64]; /* end of the request's path, after the route's path */
	struct strbuf body;
	size_t received;    /* bytes of the body that have arrived */
	struct fault fault; /* status 0 if the request is not refused */
	int status;         /* HTTP status of the answer */
	struct strbuf out;  /* the answer, or the next piece of a stream */
	size_t out_at;      /* bytes of a stream's `out` that were sent */
	const char *type;   /* content type of the answer */
	struct reply reply;
	bool said_all; /* `out` has the last events of a stream */
	bool closes;   /* close the connection after the answer */
	bool handled;  /* the route's function was called or is queued */
	int fd;
	uint64_t client; /* number of the client, for the engine's queue */
	/* in the queue of struct background, or of an engine_entry */
	struct exchange *queue_next;
	/* The following members are guarded by the server's lock. */
	struct answer *answer; /* NULL if the engine has no request from here */
	/* libmicrohttpd ignores the connection; the response is a stream; the
	 * stream must send a comment line. */
	bool suspended, streaming, silent_long;
	/* The exchange is in the queue of an engine_entry; and it has left the
	 * queue while a comment line was sent, so that the connection thread
	 * must pass it to a background thread. */
	bool waiting, goes_on;
	/* A background thread has not finished with the exchange: the
	 * connection stays suspended, even if the engine has output already. */
	bool preparing;
	uint64_t said_ns; /* time of the last output of a stream; 0 before it */
	struct exchange *prev, *next;
};

/* ---- exchange.c ---------------------------------------------------------- */

/* Callbacks of libmicrohttpd; their first argument is the struct server. */
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *,
	const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **exchange);
void exchange_completed(void *server, struct MHD_Connection *, void **exchange,
	enum MHD_RequestTerminationCode);
void client_notify(void *server, struct MHD_Connection *, void **client,
	enum MHD_ConnectionNotificationCode);

/* Shut down the connections that have had no complete request for `after_ns`. A
 * connection is spared if this process, which may have been stopped or
 * preempted, may be the cause: if there are bytes that the HTTP thread has not
 * read, or if the request was not yet late at the previous call. To be called a
 * few times a second. The caller holds the server's lock. */
void client_show_out(struct server *, uint64_t now_ns, uint64_t after_ns);

/* Resume the streams that have had no output for a second, so that each sends a
 * comment line; the first one after the header, if the request still waits. The
 * caller holds the server's lock. */
void exchanges_break_silence(struct server *, uint64_t now_ns);

/* Returns the engine's callbacks for this exchange: they resume the connection
 * when the answer has new output, and report that the client has
 * disconnected. */
struct answer_reader exchange_reader(struct exchange *);

/* True: suspend the connection while a background thread owns the exchange.
 * False: resume the connection. */
void exchange_set_preparing(struct exchange *, bool);

/*
 * Suspend the connection of a request that waits for its engine; or refuse such
 * a request, and resume the connection; or end the wait. While it waits, a
 * stream gets comment lines. exchange_end_waiting returns true if the caller
 * must call background_again for the exchange. The caller holds the server's
 * lock.
 */
void exchange_begin_waiting(struct exchange *);
void exchange_refuse_waiting(struct exchange *, const struct fault *);
bool exchange_end_waiting(struct exchange *);

/* Call the function of the request's route, until it has done its work. Returns
 * false if the exchange waits for its engine: the caller must not touch it any
 * more. */
bool exchange_call_route(struct exchange *);

/* ---- background.c -------------------------------------------------------- */

/* Start the threads. Returns 0, or a negative errno with a message; the caller
 * then calls background_close, too. */
int background_open(struct server *, struct err *);

/* Suspend the connection, and call the route's function on a background thread.
 * Returns false after background_close; the exchange is then unchanged. */
bool background_add(struct exchange *);

/* Call the route's function again for a request that has waited for its engine,
 * whose connection is suspended. */
void background_again(struct exchange *);

/* Refuse all queued requests with status 503, and wait until the requests that
 * threads are handling are done. A second call does nothing. */
void background_close(struct server *);

/* ---- routes.c ------------------------------------------------------------ */

/* Returns the route of a path and method. Otherwise returns NULL, and *allowed
 * is the method that the path needs, or NULL if no route has this path. */
const struct route *route_find(
	const char *method, const char *path, const char **allowed);

/* Returns route i of the table, or NULL after the last one. */
const struct route *route_at(size_t i);

/* ---- serve_metrics.c ----------------------------------------------------- */

/* The functions of the routes /metrics and /state. */
void metrics_answer(struct exchange *);
void state_answer(struct exchange *);

/* Add the counters of a state to those of another one. */
void metrics_add(struct engine_state *sum, const struct engine_state *);

/* Count an answer that was sent. The route is NULL if no route fitted. */
void metrics_count(struct server *, const struct route *, int status);

#endif
