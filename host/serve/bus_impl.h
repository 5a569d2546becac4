/*
 * What the files of the bus share: the bus, the texts that are objects of it,
 * and values of properties. All of it is the bus's own thread's, but for what
 * is said to be otherwise.
 */
#ifndef HOST_SERVE_BUS_IMPL_H
#define HOST_SERVE_BUS_IMPL_H

#include "base/strbuf.h"
#include "host/serve/engine.h"
#include "host/serve/api_request.h"
#include "host/serve/bus.h"

#include <dbus/dbus.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUS_ROOT        "/dev/tandem"
#define BUS_ENGINE      BUS_ROOT "/engine"
#define BUS_TEXTS       BUS_ROOT "/text"
#define BUS_ENGINE_FACE BUS_NAME
#define BUS_TEXT_FACE   "dev.tandem.Text1"
#define BUS_ERRORS      "dev.tandem.Error."

enum {
	BUS_ENDED_MAX = 64, /* texts that have ended and are still objects */
	BUS_WAITERS = 8,    /* calls of Wait that one text has room for */
	BUS_PROPERTIES = 8
};

/* The value of a property, of the type that introspection says. */
struct bus_value {
	const char *name;
	char type; /* 's', 't', 'u', 'f': the findings */
	bool changes;
	const char *text;
	uint64_t number;
};

struct bus_text {
	struct bus *bus;
	uint64_t number;
	char path[48];
	char *owner; /* the name of the connection that asked */
	struct answer *answer;
	int pipe; /* our end; -1: closed */
	struct strbuf unsent;
	size_t sent; /* of it */
	bool ended;  /* told so */
	uint64_t prompt_tokens, seed;
	char stop[16];  /* "": none yet */
	char state[16]; /* as it was last told */
	char error[64]; /* "": none; else a name, and why: */
	char why[ERR_TEXT_MAX];
	uint64_t tokens;
	DBusMessage *waiter[BUS_WAITERS];
	atomic_bool gone; /* nobody reads; any thread */
	struct bus_text *next;
};

struct bus {
	/* Have the text of a request written: 0 with its answer, length of the
	 * prompt and seed, or *fault. The request is the answer's then. */
	int (*begin)(struct bus *, struct api_request *,
		const struct answer_reader *, struct bus_text *,
		struct fault *);
	struct server *server;
	const struct api_offer *offer;
	uint64_t context; /* tokens */
	const struct server_finding *findings;
	size_t n_findings;
	DBusConnection *connection; /* NULL in tests: nothing is told */
	bool filtered;              /* its messages come to us */
	struct bus_text *texts;
	uint64_t number;  /* of texts */
	int bell;         /* an eventfd; any thread */
	atomic_uint busy; /* texts; any thread */
	atomic_bool ending;
	atomic_bool left; /* there is no bus any more; any thread */
	/* How things stand, and as it was last told. */
	struct bus_load {
		const char *state;
		unsigned texts; /* that have not ended */
	} now, told;
	pthread_t thread;
};

/* ---- bus_request.c ------------------------------------------------------- */

/*
 * The first argument of a call, a{sv}, as the body of a request by HTTP: 0 with
 * JSON to be freed and what kind of request that is, or *fault. What it may
 * hold, api_request_read decides.
 */
int bus_request_json(
	DBusMessage *, char **json, enum api_kind *, struct fault *);

/* dev.tandem.Error.QueueFull of "queue_full"; of NULL Failed. */
void bus_error_name(const char *code, char *out, size_t cap);

/* ---- bus_objects.c ------------------------------------------------------- */

/* The reply to a method call; NULL: it comes later, or there is no memory. */
DBusMessage *bus_reply(struct bus *, DBusMessage *call);

/* Told to all: what has changed of the engine, of a text. */
void bus_report_engine(struct bus *);
void bus_report_text(struct bus_text *);
void bus_report_added(struct bus_text *);
void bus_report_removed(struct bus_text *);

/* ---- bus_text.c ---------------------------------------------------------- */

DBusMessage *bus_generate(struct bus *, DBusMessage *call);
struct bus_text *bus_text_find(struct bus *, const char *path);
DBusMessage *bus_text_wait(struct bus_text *, DBusMessage *call);
void bus_text_cancel(struct bus_text *);

/* Take what is new of it, and send what the pipe takes. */
void bus_text_advance(struct bus_text *);

/* A connection has left the bus: its texts are nobody's. */
void bus_texts_forget(struct bus *, const char *owner);

/* Those that ended first, where they are too many; all, at the end. */
void bus_texts_trim(struct bus *, unsigned keep);

#endif
