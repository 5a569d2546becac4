/*
 * The server: HTTP and D-Bus access to models. The caller passes a started
 * handle of the library, or a list of models that the server opens itself
 * (engines.h); the server answers requests until a signal arrives.
 * The server does not print (the caller reports the URL) and does not parse
 * command lines. Threads: the thread that calls server_run waits for signals
 * and makes streams without output send comment lines; a thread of the HTTP
 * library reads and checks requests and sends answers; background threads parse
 * and tokenize large requests; the engine's thread generates text (engine.h);
 * and with D-Bus another thread owns the connection to the bus (bus.h).
 */
#ifndef HOST_SERVE_SERVER_H
#define HOST_SERVE_SERVER_H

#include "host/serve/engine.h"
#include "host/serve/model_list.h"

#include <stdbool.h>
#include <stddef.h>

struct opt_values;
struct server;

/* The D-Bus bus on which the server accepts requests in addition to HTTP. */
enum server_bus { SERVER_BUS_NONE, SERVER_BUS_SESSION, SERVER_BUS_SYSTEM };

/* A property of this machine: one row of the output of `tandem doctor`. */
struct server_finding {
	const char *name, *state;
	char found[384], means[384];
};

struct server_options {
	/* Address, in the form that listening_open takes; NULL for no HTTP. */
	const char *listen;
	enum server_bus bus;
	/* [n_findings] findings about this machine, for D-Bus clients; borrowed
	 * until server_close */
	const struct server_finding *findings;
	size_t n_findings;
	const char *key_file; /* file of API keys, or NULL */
	/* Called with an error message if reading the key file again (after
	 * SIGHUP) fails. */
	void (*keys_failed)(const char *message);
	bool no_key; /* permit access from other machines without a key */
	/* The models that requests may name; NULL if only the handle's model is
	 * offered. `models`, `methods` and `values` are borrowed until
	 * server_close. */
	const struct model_list *models;
	/* The methods and options that a request may choose: see struct
	 * engine_menu. */
	const char *const *methods;
	const struct opt_values *values;
	/* The method, drafter, clock and precision of the server's own options.
	 * `model` is the name of the handle's model, or NULL if `models` is
	 * set. */
	struct engine_offer offer;
	/* Options for the handles that the server itself opens; the members
	 * `model` and `set` are not used. */
	struct tandem_options handle;
	/* for the handles that the server itself opens: maximum number of
	 * tokens of a request (argument `tokens` of tandem_start) */
	uint64_t context;
	/* memory limit for all handles together, in bytes; 0: none */
	uint64_t memory;
	/* An engine that has been idle for this time is closed; 0: never. */
	unsigned idle_unload_s;
	/* maximum number of texts that run at the same time */
	unsigned texts;
	unsigned queue;       /* maximum number of texts that wait */
	unsigned connections; /* maximum number of open connections */
	/* A client is dropped if it reads nothing of its answer for this time,
	 * or sends no complete request for twice this time. */
	unsigned idle_s;
	size_t body_max, header_max; /* limits of a request, in bytes */
	/* Maximum time that running requests have to finish after the first
	 * signal. */
	double grace_s;
};

/*
 * Open a server, which then accepts connections. The handle is a started handle
 * of the first model, and `need` is its estimated memory (tandem_need). The
 * server owns the handle, also after a failure. The handle may be NULL if
 * `models` is set and no bus is served. Returns 0, or a negative errno with a
 * message; *out is then NULL.
 */
int server_open(struct server **out, const struct server_options *,
	struct tandem *, uint64_t need, struct err *);

/* Returns the address, such as "http://127.0.0.1:8080", or "" without HTTP. The
 * string is valid until server_close. */
const char *server_url(const struct server *);

/*
 * Serve until SIGINT or SIGTERM, which the caller has blocked in all threads;
 * or, without HTTP, until the connection to the bus is closed. If there is a
 * key file, the caller has also blocked SIGHUP: on SIGHUP the server reads the
 * key file again, and if that fails, the old keys stay valid. At the end accept
 * no more requests, and wait up to grace_s until the running requests have
 * ended; a second signal ends this wait. Returns 0, or -ERR_DEVICE_LOST as soon
 * as the device is lost and cannot be restarted.
 */
int server_run(struct server *, struct err *);

/* End all requests, stop the threads, close all handles and free the server.
 * Returns 0, or the first error of closing a handle. */
int server_close(struct server *, struct err *);

#endif
