/*
 * Shared by the files bus*.c: the bus, the text objects, and the values of
 * properties. A text object is the D-Bus object of one request and of its
 * generated text. Only the bus thread uses these data and functions, unless a
 * comment says otherwise.
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
	BUS_ENDED_MAX = 64, /* maximum number of objects whose text has ended */
	BUS_WAITERS = 8,    /* maximum number of pending Wait calls on a text */
	/* size of an object's array of properties; the last element marks the
	 * end */
	BUS_PROPERTIES = 8
};

/* A property of an object and its value. */
struct bus_value {
	const char *name; /* NULL after the last property */
	/* D-Bus type of the value: 's', 't' or 'u' as in D-Bus signatures; 'f':
	 * the list bus.findings (properties of this machine), of type
	 * a(ssss) */
	char type;
	bool changes;     /* whether a signal reports changes of the value */
	const char *text; /* the value for type 's' */
	uint64_t number;  /* the value for types 't' and 'u' */
};

struct bus_text {
	struct bus *bus;
	uint64_t number;
	char path[48]; /* path of the D-Bus object */
	char *owner;   /* unique name of the client's D-Bus connection */
	struct answer *answer;
	int pipe; /* the pipe's writing end; -1 when it is closed */
	struct strbuf
		unsent;   /* output; not all of it was written to the pipe */
	size_t sent;      /* bytes of `unsent` that were written */
	uint64_t full_ns; /* when the pipe became full; 0 if it is not full */
	bool ended;       /* the client was notified of the end of the text */
	uint64_t prompt_tokens, seed;
	char stop[16];          /* why the text ended; "" before the end */
	char state[16];         /* the state that was reported last */
	char error[64];         /* a D-Bus error name, or "" */
	char why[ERR_TEXT_MAX]; /* message of the error */
	uint64_t tokens;        /* number of generated tokens */
	/* Calls of Wait that have no reply yet; unused elements are NULL. */
	DBusMessage *waiter[BUS_WAITERS];
	/* The client has closed the reading end, or the text is canceled. Any
	 * thread may read this flag. */
	atomic_bool gone;
	struct bus_text *next;
};

struct bus {
	/* Submit a request to the engine. On success returns 0, sets the text's
	 * answer, prompt_tokens and seed, and the answer owns the request.
	 * Otherwise returns a negative errno and sets *fault. (Tests replace
	 * this function.) */
	int (*begin)(struct bus *, struct api_request *,
		const struct answer_reader *, struct bus_text *,
		struct fault *);
	struct server *server;
	const struct engine_offer *offer;
	uint64_t context; /* context size of the engine, in tokens */
	/* a client that reads nothing for this time is dropped */
	uint64_t idle_ns;
	const struct server_finding *findings;
	size_t n_findings;
	/* connection to the bus; NULL in tests, where signals are discarded */
	DBusConnection *connection;
	bool filtered; /* on_message is installed as a message filter */
	struct bus_text *texts; /* list of text objects, the newest first */
	uint64_t number;        /* number of texts added since the start */
	/* An eventfd that wakes the bus thread. Any thread may write to the
	 * eventfd. */
	int bell;
	/* Number of texts still being generated or delivered. Any thread may
	 * read `busy`, `ending` and `left`. */
	atomic_uint busy;
	atomic_bool ending; /* the bus thread must end */
	atomic_bool left;   /* the connection is closed */
	/* The current state of the engine, and the state that was reported
	 * last. */
	struct bus_load {
		const char *state;
		unsigned texts; /* waiting and running texts of all clients */
	} now, reported;
	pthread_t thread;
};

/* ---- bus_request.c ------------------------------------------------------- */

/*
 * Convert the argument of a Generate call, a{sv}, to the JSON body of an HTTP
 * request, without checking the members, which api_request_read checks. Returns
 * 0 with *json, which the caller frees, and the kind of request; or a negative
 * errno with *fault set.
 */
int bus_request_json(
	DBusMessage *, char **json, enum api_kind *, struct fault *);

/* Write the D-Bus error name of a fault's code to `out`, which has `cap` bytes:
 * "dev.tandem.Error.QueueFull" for "queue_full", "dev.tandem.Error.Failed" for
 * NULL. */
void bus_error_name(const char *code, char *out, size_t cap);

/* ---- bus_objects.c ------------------------------------------------------- */

/* Returns the reply to a method call, which the caller sends and releases; NULL
 * if the reply is sent later, or if there is no memory for a reply. */
DBusMessage *bus_reply(struct bus *, DBusMessage *call);

/* Emit a PropertiesChanged signal for the engine, or for a text. */
void bus_report_engine(struct bus *);
void bus_report_text(struct bus_text *);
/* Emit the signal that a text object was added, or removed. */
void bus_report_added(struct bus_text *);
void bus_report_removed(struct bus_text *);

/* ---- bus_text.c ---------------------------------------------------------- */

/* Handle a Generate call: submit the request and add a text object. Returns the
 * reply with the object's path and the pipe's reading end, or an error reply.
 */
DBusMessage *bus_generate(struct bus *, DBusMessage *call);

/* Returns the text object with this path, or NULL. */
struct bus_text *bus_text_find(struct bus *, const char *path);

/* Handle a Wait call. Returns the reply if the text has ended, otherwise NULL:
 * the reply is then sent when the text ends. */
DBusMessage *bus_text_wait(struct bus_text *, DBusMessage *call);

/* Close the pipe; the engine then cancels the text. */
void bus_text_cancel(struct bus_text *);

/* Take new output from the answer, and write as much as the pipe accepts. */
void bus_text_advance(struct bus_text *);

/* Cancel and remove all texts of a client that has left the bus. `owner` is the
 * unique name of the client's connection. */
void bus_texts_forget(struct bus *, const char *owner);

/* Remove the oldest ended texts, so that at most `keep` ended texts remain;
 * with `keep` 0 remove all texts, also those that have not ended. */
void bus_texts_trim(struct bus *, unsigned keep);

#endif
