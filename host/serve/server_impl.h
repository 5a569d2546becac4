/*
 * What the files of the server share: the server itself, and an exchange, which
 * is one request and its answer on a connection of libmicrohttpd. Exchanges are
 * that library's thread's, but for what the lock of the answers guards.
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
	bool open; /* without a key as well */
	/* The request is whole: fill `out` and `type`, or `fault`, or begin an
	 * answer. */
	void (*answer)(struct exchange *);
	enum api_kind kind; /* of what texts are asked for by */
};

/*
 * A connection, from the first byte to the last: whoever sends a request a byte
 * at a time is never idle, and is shown out here when it takes too long.
 */
struct client {
	int fd;
	bool answered;     /* its request is whole, and is being answered */
	uint64_t since_ns; /* it was not */
	struct client *prev, *next;
};

enum {
	ROUTES_MAX = 16,
	STATUSES = 12 /* codes that answers have, at most */
};

struct server {
	struct server_options options;
	struct api_keys keys;
	struct listening listening;
	struct tandem *tandem, *reader;
	pthread_mutex_t reading; /* of the reader, by one at a time */
	struct engine *answering;
	struct MHD_Daemon *http; /* NULL: nothing listens */
	struct bus *bus;         /* NULL: none */
	uint64_t context;        /* tokens */
	uint64_t began_ns;
	int64_t created; /* seconds since 1970 */
	/* Of libmicrohttpd's thread. */
	uint64_t number; /* of answers begun */
	int status[STATUSES];
	uint64_t answered[ROUTES_MAX][STATUSES];
	atomic_bool ending;
	bool hurried; /* a second signal came */
	/* Guarded by the lock. */
	struct exchange *first;
	struct client *guests;
};

struct exchange {
	struct server *server;
	struct MHD_Connection *connection;
	const struct route *route; /* NULL: there is none such */
	struct strbuf body;
	size_t received;    /* of it */
	struct fault fault; /* status 0: none */
	int status;         /* of what was answered */
	struct strbuf out;
	size_t out_at;    /* of a stream: what of it is sent */
	const char *type; /* of the answer */
	struct reply reply;
	bool said_all;
	int fd;
	/* Guarded by the lock. */
	struct answer *answer; /* NULL: none was begun */
	bool suspended, streaming, silent_long;
	uint64_t said_ns; /* when the stream last had something to send */
	struct exchange *prev, *next;
};

/* ---- exchange.c ---------------------------------------------------------- */

/* What libmicrohttpd calls, with the server as argument. */
enum MHD_Result exchange_handle(void *server, struct MHD_Connection *,
	const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **exchange);
void exchange_completed(void *server, struct MHD_Connection *, void **exchange,
	enum MHD_RequestTerminationCode);
void client_notify(void *server, struct MHD_Connection *, void **guest,
	enum MHD_ConnectionNotificationCode);

/* With the lock held: who has owed a request for so long. */
void client_show_out(struct server *, uint64_t now_ns, uint64_t after_ns);

/* With the lock held: streams that said nothing for so long are woken. */
void exchanges_break_silence(struct server *, uint64_t now_ns);

/* Of answers that have news, and readers that have left. */
struct answer_reader exchange_reader(struct exchange *);

/* ---- routes.c ------------------------------------------------------------ */

/* The route of a path; NULL and *allowed where it has another method, NULL and
 * NULL where there is none. */
const struct route *route_find(
	const char *method, const char *path, const char **allowed);
const struct route *route_at(size_t i); /* NULL behind the last */

/* ---- serve_metrics.c ----------------------------------------------------- */

void metrics_answer(struct exchange *);
void state_answer(struct exchange *);
void metrics_count(struct server *, const struct route *, int status);

#endif
