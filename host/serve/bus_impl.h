/*
 * Shared by the files of the bus: the bus, its text objects, and values of
 * properties. Everything belongs to the bus thread unless a comment says
 * otherwise.
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
	BUS_ENDED_MAX = 64, /* ended texts that stay as objects */
	BUS_WAITERS = 8,    /* pending calls of Wait on one text */
	BUS_PROPERTIES = 8
};

/* The value of a property, of the type in the introspection data. */
struct bus_value {
	const char *name;
	char type; /* 's', 't', 'u', or 'f': the findings */
	bool changes;
	const char *text;
	uint64_t number;
};

struct bus_text {
	struct bus *bus;
	uint64_t number;
	char path[48];
	char *owner; /* name of the client's connection */
	struct answer *answer;
	int pipe; /* our end; -1: closed */
	struct strbuf unsent;
	size_t sent; /* bytes of the text sent to the pipe */
	bool ended;  /* the end was reported */
	uint64_t prompt_tokens, seed;
	char stop[16];  /* "": none yet */
	char state[16]; /* as last reported */
	char error[64]; /* "": none; otherwise a D-Bus error name */
	char why[ERR_TEXT_MAX];
	uint64_t tokens;
	DBusMessage *waiter[BUS_WAITERS];
	atomic_bool gone; /* the reader has closed its end; any thread */
	struct bus_text *next;
};

struct bus {
	/* Start a request: 0 with its answer, the length of the prompt and the
	 * seed, or *fault. On success the answer owns the request. */
	int (*begin)(struct bus *, struct api_request *,
		const struct answer_reader *, struct bus_text *,
		struct fault *);
	struct server *server;
	const struct api_offer *offer;
	uint64_t context; /* tokens */
	const struct server_finding *findings;
	size_t n_findings;
	DBusConnection *connection; /* NULL in tests: signals are dropped */
	bool filtered;              /* our message filter is installed */
	struct bus_text *texts;
	uint64_t number; /* number of texts so far */
	int bell;        /* eventfd that wakes the thread; any thread */
	/* number of texts not delivered completely; any thread */
	atomic_uint busy;
	atomic_bool ending;
	atomic_bool left; /* the connection is closed; any thread */
	/* The current state, and the last one that was reported. */
	struct bus_load {
		const char *state;
		unsigned texts; /* not ended */
	} now, reported;
	pthread_t thread;
};

/* ---- bus_request.c ------------------------------------------------------- */

/*
 * Convert the first argument of a call, a{sv}, to the JSON body of an HTTP
 * request: 0 with JSON that the caller frees and the kind of request, or
 * *fault. api_request_read checks the members.
 */
int bus_request_json(
	DBusMessage *, char **json, enum api_kind *, struct fault *);

/* The D-Bus error name of a fault's code: dev.tandem.Error.QueueFull for
 * "queue_full", Failed for NULL. */
void bus_error_name(const char *code, char *out, size_t cap);

/* ---- bus_objects.c ------------------------------------------------------- */

/* The reply to a method call; NULL: it is sent later, or memory is short. */
DBusMessage *bus_reply(struct bus *, DBusMessage *call);

/* Emit a signal: changed properties of the engine, or of a text. */
void bus_report_engine(struct bus *);
void bus_report_text(struct bus_text *);
void bus_report_added(struct bus_text *);
void bus_report_removed(struct bus_text *);

/* ---- bus_text.c ---------------------------------------------------------- */

DBusMessage *bus_generate(struct bus *, DBusMessage *call);
struct bus_text *bus_text_find(struct bus *, const char *path);
DBusMessage *bus_text_wait(struct bus_text *, DBusMessage *call);
void bus_text_cancel(struct bus_text *);

/* Take new output from the answer, and write what the pipe accepts. */
void bus_text_advance(struct bus_text *);

/* A connection has left the bus: cancel its texts. */
void bus_texts_forget(struct bus *, const char *owner);

/* Remove the oldest ended texts if there are more than `keep`. */
void bus_texts_trim(struct bus *, unsigned keep);

#endif
