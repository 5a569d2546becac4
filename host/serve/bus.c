/* The bus thread: it connects to D-Bus, owns the server's name on the bus, and
 * handles incoming messages. */
#include "host/serve/bus.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "host/serve/engines.h"
#include "host/serve/prepare.h"
#include "host/serve/bus_impl.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define PULSE_MS   250
#define PARTING_NS 1000000000ull

/* ---- requests to the engine, and its state ------------------------------- */

/* Submit a request to the engine. (struct bus points to this function in its
 * member `begin`; tests use another function.) */
static int begin(struct bus *b, struct api_request *request,
	const struct answer_reader *reader, struct bus_text *t, struct fault *f)
{
	struct server *s = b->server;
	struct engine *engine = engines_first(s);
	int ret = s->ending ? fault_stopping(f)
			    : engines_check_first(s, request, f);

	if (!ret)
		ret = prepare_request(engine, request, f);
	if (ret)
		return ret;
	t->prompt_tokens = request->prompt[0].n_tokens;
	t->seed = (uint64_t)request->seed;
	return engine_submit(engine, request, reader, &t->answer, f);
}

/* Read the state of the engine into b->now, and emit a signal if the state has
 * changed. */
static void look(struct bus *b)
{
	struct server *s = b->server;
	const struct engine *engine = engines_first(s);

	pthread_mutex_lock(&s->lock);
	b->now.texts = engine->queue.waiting + engine->queue.running;
	b->now.state = engine->state.lost ? "lost"
		: s->ending               ? "ending"
		: b->now.texts            ? "busy"
					  : "ready";
	pthread_mutex_unlock(&s->lock);
	if (b->reported.state && !strcmp(b->reported.state, b->now.state) &&
		b->reported.texts == b->now.texts)
		return;
	b->reported = b->now;
	bus_report_engine(b);
}

/* ---- incoming D-Bus messages --------------------------------------------- */

static DBusHandlerResult on_message(
	DBusConnection *c, DBusMessage *m, void *arg)
{
	const char *name, *before, *after;
	struct bus *b = arg;
	DBusMessage *reply;

	if (dbus_message_is_signal(
		    m, DBUS_INTERFACE_DBUS, "NameOwnerChanged") &&
		dbus_message_get_args(m, NULL, DBUS_TYPE_STRING, &name,
			DBUS_TYPE_STRING, &before, DBUS_TYPE_STRING, &after,
			DBUS_TYPE_INVALID) &&
		!*after)
		bus_texts_forget(b, name);
	if (dbus_message_is_signal(m, DBUS_INTERFACE_LOCAL, "Disconnected"))
		b->ending = b->left = true;
	if (dbus_message_get_type(m) != DBUS_MESSAGE_TYPE_METHOD_CALL ||
		dbus_message_has_interface(m, DBUS_INTERFACE_PEER))
		return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
	look(b);
	reply = bus_reply(b, m);
	if (reply && !dbus_message_get_no_reply(m))
		dbus_connection_send(c, reply, NULL);
	if (reply)
		dbus_message_unref(reply);
	return DBUS_HANDLER_RESULT_HANDLED;
}

/* ---- the bus thread ------------------------------------------------------ */

/* One iteration of the thread's loop: wait for events for up to PULSE_MS, then
 * handle messages, and write new output of all texts to their pipes. */
static void go_round(struct bus *b)
{
	struct pollfd p[2 + BUS_ENDED_MAX];
	nfds_t n = 2;
	eventfd_t rung;

	/* Wait for the D-Bus connection, the eventfd `bell` and the pipes. A
	 * pipe wakes this thread when its client closes the reading end and, if
	 * the text has unsent output, when the pipe has room. */
	p[0] = (struct pollfd){ .fd = -1, .events = POLLIN };
	dbus_connection_get_unix_fd(b->connection, &p[0].fd);
	if (dbus_connection_has_messages_to_send(b->connection))
		p[0].events |= POLLOUT;
	p[1] = (struct pollfd){ .fd = b->bell, .events = POLLIN };
	for (struct bus_text *t = b->texts; t && n < 2 + BUS_ENDED_MAX;
		t = t->next)
		if (t->pipe >= 0)
			p[n++] = (struct pollfd){ t->pipe,
				t->unsent.len ? POLLOUT : 0, 0 };
	poll(p, n, PULSE_MS);
	eventfd_read(b->bell, &rung);
	/* poll reports POLLERR when the reading end is closed, also if no
	 * events were requested. */
	for (struct bus_text *t = b->texts; t; t = t->next)
		for (nfds_t i = 2; i < n; i++)
			if (p[i].fd == t->pipe && (p[i].revents & POLLERR))
				bus_text_cancel(t);

	dbus_connection_read_write(b->connection, 0);
	while (dbus_connection_dispatch(b->connection) ==
		DBUS_DISPATCH_DATA_REMAINS)
		;
	for (struct bus_text *t = b->texts; t; t = t->next)
		bus_text_advance(t);
	look(b);
}

static void *run(void *arg)
{
	struct bus *b = arg;
	uint64_t until;

	while (!b->ending)
		go_round(b);
	until = clock_ns() + PARTING_NS;
	while (b->busy && dbus_connection_get_is_connected(b->connection) &&
		clock_ns() < until)
		go_round(b);
	bus_texts_trim(b, 0);
	if (dbus_connection_get_is_connected(b->connection))
		dbus_connection_flush(b->connection);
	return NULL;
}

/* ---- opening and closing ------------------------------------------------- */

static int no_bus(const char *which, DBusError *why, struct err *e)
{
	int ret = err_set(e, ECONNREFUSED,
		"cannot connect to the %s bus: %s; dbus-run-session starts a "
		"session bus",
		which, why->message ? why->message : "no answer");

	dbus_error_free(why);
	return ret;
}

static int connect_bus(struct bus *b, enum server_bus which, struct err *e)
{
	const char *name = which == SERVER_BUS_SYSTEM ? "system" : "session";
	DBusError why = DBUS_ERROR_INIT;
	bool denied;

	b->connection = dbus_bus_get_private(
		which == SERVER_BUS_SYSTEM ? DBUS_BUS_SYSTEM : DBUS_BUS_SESSION,
		&why);
	if (!b->connection)
		return no_bus(name, &why, e);
	dbus_connection_set_exit_on_disconnect(b->connection, FALSE);
	if (!dbus_connection_add_filter(b->connection, on_message, b, NULL))
		return err_set(e, ENOMEM, "no memory for the bus");
	b->filtered = true;
	dbus_bus_add_match(b->connection,
		"type='signal',sender='" DBUS_SERVICE_DBUS
		"',interface='" DBUS_INTERFACE_DBUS
		"',member='NameOwnerChanged'",
		&why);
	if (dbus_error_is_set(&why))
		return no_bus(name, &why, e);
	if (dbus_bus_request_name(b->connection, BUS_NAME,
		    DBUS_NAME_FLAG_DO_NOT_QUEUE,
		    &why) == DBUS_REQUEST_NAME_REPLY_PRIMARY_OWNER)
		return 0;
	denied = dbus_error_has_name(&why, DBUS_ERROR_ACCESS_DENIED);
	if (dbus_error_is_set(&why) && !denied)
		return no_bus(name, &why, e);
	dbus_error_free(&why);
	return err_set(e, denied ? EACCES : EADDRINUSE,
		denied ? "the %s bus has no policy file that permits the name "
			 "'%s'; docs/dbus.md shows one"
		       : "another process on the %s bus owns the name '%s'; "
			 "stop it first",
		name, BUS_NAME);
}

static void bus_free(struct bus *b)
{
	if (b->connection) {
		if (b->filtered)
			dbus_connection_remove_filter(
				b->connection, on_message, b);
		dbus_connection_close(b->connection);
		dbus_connection_unref(b->connection);
	}
	/* Free the messages that libdbus keeps for reuse. Freeing them is safe
	 * because no other code in this process uses libdbus. */
	dbus_shutdown();
	fd_close(&b->bell);
	free(b);
}

int bus_open(struct bus **out, struct server *s, enum server_bus which,
	struct err *e)
{
	struct bus *b = calloc(1, sizeof(*b));
	int ret = 0;

	*out = NULL;
	if (!b)
		return err_set(e, ENOMEM, "no memory for the bus");
	b->begin = begin;
	b->server = s;
	b->offer = engines_first(s)->offer;
	b->context = engines_first(s)->context;
	b->idle_ns = 1000000000ull * s->options.idle_s;
	b->findings = s->options.findings;
	b->n_findings = s->options.n_findings;
	b->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->bell < 0)
		ret = err_sys(e, errno,
			"cannot make a file descriptor to wake the D-Bus "
			"thread");
	if (!ret)
		ret = connect_bus(b, which, e);
	if (!ret) {
		look(b);
		ret = pthread_create(&b->thread, NULL, run, b);
		if (ret)
			ret = err_sys(e, ret,
				"cannot start the D-Bus thread; check the free "
				"memory and ulimit -u");
	}
	if (ret)
		bus_free(b);
	else
		*out = b;
	return ret;
}

bool bus_is_busy(struct bus *b)
{
	return b && b->busy;
}

bool bus_is_gone(struct bus *b)
{
	return b && b->left;
}

void bus_close(struct bus *b)
{
	if (!b)
		return;
	b->ending = true;
	eventfd_write(b->bell, 1);
	pthread_join(b->thread, NULL);
	bus_free(b);
}
