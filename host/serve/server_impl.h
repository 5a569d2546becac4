/*
 * Shared by the files of the server: the server itself, and an exchange, which
 * is one request and its answer on a connection of libmicrohttpd. Exchanges
 * belong to that library's thread, except members guarded by the engine's lock;
 * while an exchange is `preparing`, a background thread owns the exchange.
 */
#ifndef HOST_SERVE_SERVER_IMPL_H
#define HOST_SERVE_SERVER_IMPL_H

#include "base/strbuf.h"
#include "host/serve/engine.h"
#include "host/serve/api_key.h"
#include "host/serve/api_request.h"
#include "host/serve/httpd.h"
#include "host/serve/listening.h"
#include "host/serve/reply.h"
#include "host/serve/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bus;
struct exchange;

struct route {
	const char *method, *path;
	bool open; /* needs no key */
	/* Called when the request is complete: fill `out` and `type`, or
	 * `fault`, or begin an answer. For POST any thread may call. */
	void (*answer)(struct exchange *);
	enum api_kind kind; /* of the request's body */
};

/*
 * A connection, from its first byte to its last. A client that sends a request
 * one byte at a time is never idle, so connections whose request takes too long
 * are shut down here.
 */
struct client {
	int fd;
	bool answered;     /* the request is complete and is being answered */
	uint64_t since_ns; /* time since when it is not `answered` */
	struct client *prev, *next;
};

enum {
	ROUTES_MAX = 16,
	STATUSES = 12 /* at most so many different status codes */
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
	unsigned n; /* threads that run */
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* Guarded by the lock. */
	struct exchange *first; /* the queue, linked by queue_next */
	bool closing;
};

struct server {
	struct server_options options;
	struct api_keys keys;
	struct listening listening;
	struct tandem *tandem;
	struct engine *engine;
	struct background background;
	struct MHD_Daemon *http; /* NULL: no HTTP */
	struct bus *bus;         /* NULL: none */
	uint64_t context;        /* tokens */
	size_t token_bytes;      /* maximum bytes of text of a token */
	uint64_t began_ns;
	int64_t created;         /* seconds since 1970 */
	_Atomic uint64_t number; /* answers so far */
	/* For libmicrohttpd's thread only. */
	int status[STATUSES];
	uint64_t answered[ROUTES_MAX][STATUSES];
	atomic_bool ending;
	bool hurried; /* a second signal has arrived */
	/* Guarded by the lock. */
	struct exchange *first;
	struct client *clients;
};

struct exchange {
	struct server *server;
	struct MHD_Connection *connection;
	const struct route *route; /* NULL: no such route */
	struct strbuf body;
	size_t received;    /* bytes of the body */
	struct fault fault; /* status 0: none */
	int status;         /* of the answer */
	struct strbuf out;
	size_t out_at;    /* of a stream: bytes of `out` that were sent */
	const char *type; /* content type of the answer */
	struct reply reply;
	bool said_all;
	bool closes;  /* close the connection after the answer */
	bool handled; /* the route's function was called, or will be */
	int fd;
	struct exchange *queue_next; /* in struct background */
	/* Guarded by the lock. */
	struct answer *answer; /* NULL: none begun */
	bool suspended, streaming, silent_long;
	/* A background thread has not finished with the exchange: the
	 * connection stays suspended, even if the engine has output already. */
	bool preparing;
	uint64_t said_ns; /* time when the stream last had something to send */
	struct exchange *prev, *next;
};

/* ---- exchange.c ---------------------------------------------------------- */

/* Callbacks of libmicrohttpd, with the server as argument. */
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *,
	const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **exchange);
void exchange_completed(void *server, struct MHD_Connection *, void **exchange,
	enum MHD_RequestTerminationCode);
void client_notify(void *server, struct MHD_Connection *, void **client,
	enum MHD_ConnectionNotificationCode);

/* Call with the lock held: shut down connections whose request is incomplete
 * for so long. */
void client_show_out(struct server *, uint64_t now_ns, uint64_t after_ns);

/* Call with the lock held: wake streams that sent nothing for so long. */
void exchanges_break_silence(struct server *, uint64_t now_ns);

/* Wakes connections whose answer has new output, and reports clients that have
 * gone. */
struct answer_reader exchange_reader(struct exchange *);

/* True: suspend the connection while a background thread owns the exchange.
 * False: resume the connection. */
void exchange_set_preparing(struct exchange *, bool);

/* ---- background.c -------------------------------------------------------- */

int background_open(struct server *, struct err *);

/* Suspend the connection, and call the route's function on a background thread.
 * Returns false after background_close; the exchange is then unchanged. */
bool background_add(struct exchange *);

/* Refuse all queued requests with status 503, and wait until the requests that
 * threads are handling are done. A second call does nothing. */
void background_close(struct server *);

/* ---- routes.c ------------------------------------------------------------ */

/* The route of a path and method. NULL with *allowed set: the path needs
 * another method; NULL with *allowed NULL: no such path. */
const struct route *route_find(
	const char *method, const char *path, const char **allowed);
const struct route *route_at(size_t i); /* NULL after the last */

/* ---- serve_metrics.c ----------------------------------------------------- */

void metrics_answer(struct exchange *);
void state_answer(struct exchange *);
void metrics_count(struct server *, const struct route *, int status);

#endif
