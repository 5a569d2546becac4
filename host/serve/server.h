/*
 * The server: HTTP and D-Bus access to a model. The caller passes an open
 * handle of the library; the server answers requests until a signal. It does
 * not print (the caller reports the URL) and does not parse command lines.
 * Threads: the one that calls server_run waits for signals and keeps quiet
 * streams alive; one of the HTTP library reads, checks and sends; a few parse
 * and tokenize large requests; one computes (engine.h).
 */
#ifndef HOST_SERVE_SERVER_H
#define HOST_SERVE_SERVER_H

#include "host/serve/api_request.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct server;
struct tandem;

/* The bus to serve in addition to HTTP. */
enum server_bus { SERVER_BUS_NONE, SERVER_BUS_SESSION, SERVER_BUS_SYSTEM };

/* A property of this machine: a row of `tandem doctor`. */
struct server_finding {
	const char *name, *state;
	char found[384], means[384];
};

struct server_options {
	const char *listen; /* as for listening_open; NULL: no HTTP */
	enum server_bus bus;
	const struct server_finding *findings; /* for D-Bus clients */
	size_t n_findings;
	const char *key_file; /* NULL: none */
	bool no_key;          /* accept other machines without a key */
	struct api_offer offer;
	unsigned texts; /* that run at a time */
	unsigned queue; /* waiting requests in addition */
	unsigned connections;
	/* connections without any data for so long are closed */
	unsigned idle_s;
	size_t body_max, header_max; /* bytes */
	double grace_s;              /* for running requests, at the end */
};

/*
 * The handle is started, and belongs to the server until the server is closed.
 * Listens from here on. On failure *out is NULL and nothing is left to close.
 */
int server_open(struct server **out, const struct server_options *,
	struct tandem *, struct err *);

/* "http://127.0.0.1:8080", owned by the server; "" without HTTP. */
const char *server_url(const struct server *);

/*
 * Serve until SIGINT or SIGTERM, which the caller has blocked in all threads,
 * or until no request can arrive because the bus is gone and there is no HTTP.
 * Then accept no more requests, and let running ones end within the grace
 * period; a second signal ends that. 0, or -ERR_DEVICE_LOST if the device is
 * lost for good.
 */
int server_run(struct server *, struct err *);

void server_close(struct server *);

#endif
