/*
 * The server: HTTP and D-Bus access to a model. The caller passes a started
 * handle of the library; the server answers requests until a signal arrives.
 * The server does not print (the caller reports the URL) and does not parse
 * command lines. Threads: the thread that calls server_run waits for signals
 * and sends comments on streams without output; a thread of the HTTP library
 * reads and checks requests and sends answers; background threads parse and
 * tokenize large requests; the engine's thread generates text (engine.h); and
 * with D-Bus another thread owns the connection to the bus (bus.h).
 */
#ifndef HOST_SERVE_SERVER_H
#define HOST_SERVE_SERVER_H

#include "host/serve/engine.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct server;
struct tandem;

/* The D-Bus bus to serve on in addition to HTTP. */
enum server_bus { SERVER_BUS_NONE, SERVER_BUS_SESSION, SERVER_BUS_SYSTEM };

/* A property of this machine: one row of the output of `tandem doctor`. */
struct server_finding {
	const char *name, *state;
	char found[384], means[384];
};

struct server_options {
	/* Address as for listening_open; NULL for no HTTP. */
	const char *listen;
	enum server_bus bus;
	/* [n_findings] for D-Bus clients; borrowed until server_close. */
	const struct server_finding *findings;
	size_t n_findings;
	const char *key_file; /* file of API keys, or NULL */
	bool no_key; /* permit access from other machines without a key */
	struct engine_offer offer;
	unsigned texts;       /* maximum of texts that run at a time */
	unsigned queue;       /* maximum of texts that wait in addition */
	unsigned connections; /* maximum of connections at a time */
	/* A connection without any data for this time is closed. */
	unsigned idle_s;
	size_t body_max, header_max; /* maximum size of a request in bytes */
	/* Time that running requests have to finish after the first signal. */
	double grace_s;
};

/*
 * Open a server and listen from then on. The handle is started, and only the
 * server may use it until server_close. Returns 0; or a negative errno with a
 * message, and *out is NULL.
 */
int server_open(struct server **out, const struct server_options *,
	struct tandem *, struct err *);

/* Returns the address, such as "http://127.0.0.1:8080", or "" without HTTP. The
 * string is valid until server_close. */
const char *server_url(const struct server *);

/*
 * Serve until SIGINT or SIGTERM, which the caller has blocked in all threads;
 * or, without HTTP, until the connection to the bus is closed. Then accept no
 * more requests, and wait up to grace_s until the running requests have ended;
 * a second signal ends this wait. Returns 0, or -ERR_DEVICE_LOST as soon as the
 * device is lost and cannot be restarted.
 */
int server_run(struct server *, struct err *);

/* End all requests, stop the threads, and free the server. Does nothing for
 * NULL. */
void server_close(struct server *);

#endif
