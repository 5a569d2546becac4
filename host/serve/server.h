/*
 * The server: HTTP in front of a model. It is given an open handle of the
 * library and answers until a signal ends it. Refuses to print (whoever opens
 * it says where it is) and to know options of a command line. Threads: the one
 * that calls server_run waits for signals and looks after silent streams; one
 * of the HTTP library reads, checks and sends; one computes (answering.h).
 */
#ifndef HOST_SERVE_SERVER_H
#define HOST_SERVE_SERVER_H

#include "host/serve/api_request.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct server;
struct tandem;

/* Where else than by HTTP it answers. */
enum server_bus { SERVER_BUS_NONE, SERVER_BUS_SESSION, SERVER_BUS_SYSTEM };

/* Something that this machine gives, or lacks: a row of `tandem doctor`. */
struct server_finding {
	const char *name, *state;
	char found[384], means[384];
};

struct server_options {
	const char *listen; /* as listening_open takes it; NULL: nowhere */
	enum server_bus bus;
	const struct server_finding *findings; /* for who asks by the bus */
	size_t n_findings;
	const char *key_file; /* NULL: none */
	bool no_key;          /* and others may reach it */
	struct api_offer offer;
	unsigned texts; /* computed at a time */
	unsigned queue; /* that wait beside them */
	unsigned connections;
	unsigned idle_s; /* a connection on which nothing moves is closed */
	size_t body_max, header_max; /* bytes */
	double grace_s;              /* for what runs, at the end */
};

/*
 * `tandem` is started, and the server's until it is closed; `reader` is another
 * handle of the same model, which is only asked for tokens. Listens from here
 * on. On failure *out is NULL and nothing is left.
 */
int server_open(struct server **out, const struct server_options *,
	struct tandem *tandem, struct tandem *reader, struct err *);

/* "http://127.0.0.1:8080", the server's; "" where nothing listens. */
const char *server_url(const struct server *);

/*
 * Serve until SIGINT or SIGTERM, which the caller has blocked in all threads,
 * or until nobody can ask any more, for the bus is gone and nothing listens:
 * then nothing is accepted any more and what is under way may end within the
 * grace; a second signal ends that. 0 or, where the device was lost for good,
 * -ERR_DEVICE_LOST.
 */
int server_run(struct server *, struct err *);

void server_close(struct server *);

#endif
