/*
 * Shared by the files of the server: the server itself, and the exchange, which
 * is one HTTP request and its answer. Only the thread of libmicrohttpd, called
 * the connection thread or HTTP thread, uses an exchange, with two exceptions:
 * the members that the server's lock guards, and the time while `preparing` is
 * set, when a background thread may use the exchange.
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

struct route {
	/* A path that ends with a slash, other than "/", matches every path
	 * that consists of this path and a name. */
	const char *method, *path;
	bool open; /* requests need no API key */
	/* Handles a complete request: fills `out` and `type` of the exchange,
	 * or sets `fault`, or submits a request to the engine and sets
	 * `answer`. For a POST route, the function may also run on a background
	 * thread. */
	void (*answer)(struct exchange *);
	enum api_kind kind; /* kind of the request in the body */
	bool responses;     /* the body and the answer are of /v1/responses */
};

/*
 * A connection, from its start to its end. The server itself shuts down
 * connections that have had no complete request for too long. The timeout of
 * libmicrohttpd is used only while an answer is sent, for two reasons. This
 * timeout does not limit a client that sends a request one byte at a time. And
 * libmicrohttpd may close a connection whose next request has arrived but was
 * not read.
 */
struct client {
	int fd;
	bool answered; /* a request is complete and is being answered */
	/* the server waits for the first request of the connection, or for the
	 * rest of a request that has begun */
	bool begun;
	/* at the last call of client_show_out, the request was not complete in
	 * time */
	bool late;
	bool shut; /* the connection was shut down */
	/* time at which the connection began or at which `answered` was last
	 * set */
	uint64_t since_ns;
	struct client *prev, *next;
};

enum {
	ROUTES_MAX = 16,
	STATUSES = 12 /* number of different status codes that metrics count */
};

/*
 * A body of up to BODY_QUICK bytes is parsed and tokenized on the connection
 * thread, in at most about 10 ms. A larger body may take seconds, during which
 * the connection thread would serve no other client; so a background thread
 * (background.c) handles the request while its connection is suspended. There
 * are several background threads, so that one large body does not delay all
 * other large bodies. The number of threads bounds the memory in use:
 * tokenizing needs up to 100 bytes for each byte of the body.
 */
#define BODY_QUICK         ((size_t)16 << 10)
#define BACKGROUND_THREADS 4

struct background {
	pthread_t thread[BACKGROUND_THREADS];
	unsigned n; /* threads that were started */
	pthread_mutex_t lock;
	pthread_cond_t work; /* signaled when the queue or `closing` changes */
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
	int64_t created;         /* time of the start, in seconds since 1970 */
	_Atomic uint64_t number; /* number of answers begun since the start */
	/* For the connection thread only. status: the status codes that were
	 * sent. answered[i][k]: number of answers of route i that had the code
	 * status[k]. */
	int status[STATUSES];
	uint64_t answered[ROUTES_MAX][STATUSES];
	atomic_bool ending; /* no new requests are accepted */
	bool hurried;       /* a second signal has arrived */
	/* Guarded by the lock: lists of all exchanges and all connections. */
	struct exchange *first;
	struct client *clients;
	/* dropped_unread: number of clients that were dropped because they read
	 * nothing of their answer for the time --idle. dropped_incomplete:
	 * number of clients that were dropped because their request was not
	 * complete in time. */
	uint64_t dropped_unread, dropped_incomplete;
};

struct exchange {
	struct server *server;
	/* `engine` is the engine that the request names; this pointer is valid
	 * only while the request holds the engine (`held`). `entry` is the
	 * engine's entry, valid until the answer is sent (engines.h). Both
	 * pointers are NULL at first. */
	struct engine *engine;
	struct engine_entry *entry;
	bool held;
	/* The engine must be opened before the request can go on. */
	bool must_wait;
	bool waited; /* the request has waited for its engine */
	/* for a request that waits for its engine: whether the client wants a
	 * stream */
	bool wants_stream;
	struct MHD_Connection *connection;
	const struct route *route; /* NULL if no route matches */
	/* the part of the request's path that follows the route's path */
	char name[64];
	struct strbuf body;
	size_t received; /* bytes of the body that have arrived */
	/* fault.status is 0 unless the request is refused */
	struct fault fault;
	int status;        /* HTTP status of the answer */
	struct strbuf out; /* the answer, or the next piece of a stream */
	/* number of bytes of a stream's `out` that were sent */
	size_t out_at;
	const char *type; /* content type of the answer */
	struct reply reply;
	bool said_all; /* `out` includes the last events of a stream */
	bool closes;   /* close the connection after the answer */
	bool handled;  /* the route's function was called or is queued */
	int fd;
	uint64_t client; /* number of the client, for the engine's queue */
	/* next exchange in the queue of struct background or of an engine_entry
	 */
	struct exchange *queue_next;
	/* The following members are guarded by the server's lock. */
	/* NULL before a request is submitted to the engine */
	struct answer *answer;
	/* suspended: libmicrohttpd ignores the connection. streaming: the
	 * response is a stream. silent_long: the stream has had no output for a
	 * second and must send a comment line. */
	bool suspended, streaming, silent_long;
	/* waiting: the exchange is in the queue of an engine_entry. goes_on:
	 * the exchange left this queue while the connection thread was sending
	 * a comment line of the event stream, so the connection thread itself
	 * must pass the exchange to a background thread. */
	bool waiting, goes_on;
	/* A background thread uses the exchange, or will use the exchange when
	 * its engine is open. Meanwhile output of the engine does not resume
	 * the connection. */
	bool preparing;
	/* time of the last output of a stream; 0 before the first output */
	uint64_t said_ns;
	struct exchange *prev, *next;
};

/* ---- exchange.c ---------------------------------------------------------- */

/* Callbacks of libmicrohttpd; the first argument is the struct server. */
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *,
	const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **exchange);
void exchange_completed(void *server, struct MHD_Connection *, void **exchange,
	enum MHD_RequestTerminationCode);
void client_notify(void *server, struct MHD_Connection *, void **client,
	enum MHD_ConnectionNotificationCode);

/* Shut down the connections that have had no complete request for `after_ns`. A
 * connection is not shut down if it has bytes that the HTTP thread has not
 * read, or if its request was not yet late at the previous call: this process
 * may then have caused the delay, because it was stopped or preempted. Call
 * this function a few times a second. The caller holds the server's lock. */
void client_show_out(struct server *, uint64_t now_ns, uint64_t after_ns);

/* Resume the streams that have had no output for a second, so that each stream
 * sends a comment line. For a request that still waits for its engine, the
 * first comment line follows the HTTP header. The caller holds the server's
 * lock. */
void exchanges_break_silence(struct server *, uint64_t now_ns);

/* Returns the engine's callbacks for this exchange. The callbacks resume the
 * connection when the answer has new output, and report that the client has
 * disconnected. */
struct answer_reader exchange_reader(struct exchange *);

/* If the second argument is true, suspend the connection while a background
 * thread owns the exchange; otherwise resume the connection. */
void exchange_set_preparing(struct exchange *, bool);

/*
 * These functions handle a request that waits for its engine.
 * exchange_begin_waiting suspends the request's connection; a stream gets
 * comment lines while the request waits. exchange_refuse_waiting refuses the
 * request and resumes the connection. exchange_end_waiting ends the wait, and
 * returns true if the caller must call background_again for the exchange. The
 * caller holds the server's lock.
 */
void exchange_begin_waiting(struct exchange *);
void exchange_refuse_waiting(struct exchange *, const struct fault *);
bool exchange_end_waiting(struct exchange *);

/* Call the function of the request's route. If the function finds that the
 * request's engine is not open, but the engine is opened meanwhile, call the
 * function again. Returns false if the exchange now waits for its engine: the
 * caller must not touch the exchange any more. */
bool exchange_call_route(struct exchange *);

/* ---- background.c -------------------------------------------------------- */

/* Start the threads. Returns 0, or a negative errno with a message; the caller
 * then calls background_close, too. */
int background_open(struct server *, struct err *);

/* Suspend the connection if `suspends`, and call the route's function on a
 * background thread. After background_close this function returns false and
 * does nothing. */
bool background_add(struct exchange *, bool suspends);

/* Call the route's function again, on a background thread, for a request that
 * has waited for its engine. The connection must be suspended already. */
void background_again(struct exchange *);

/* Refuse all queued requests with status 503, and wait until the threads have
 * finished the requests that they are handling. A second call does nothing. */
void background_close(struct server *);

/* ---- routes.c ------------------------------------------------------------ */

/* Returns the route of a path and method. If there is none, returns NULL and
 * sets *allowed to the method that this path accepts, or to NULL if no route
 * has this path. */
const struct route *route_find(
	const char *method, const char *path, const char **allowed);

/* Returns route i of the table, or NULL after the last one. */
const struct route *route_at(size_t i);

/* ---- serve_metrics.c ----------------------------------------------------- */

/* The functions of the routes /metrics and /state. */
void metrics_answer(struct exchange *);
void state_answer(struct exchange *);

/* Add the counters of a state to the counters in *sum. */
void metrics_add(struct engine_state *sum, const struct engine_state *);

/* Count an answer that was sent. The route is NULL if no route matched the
 * request. */
void metrics_count(struct server *, const struct route *, int status);

#endif
