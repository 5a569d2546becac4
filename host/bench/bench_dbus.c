/*
 * A subject (kind of round trip) of `tandem bench ipc`: a D-Bus method call
 * between two processes over a private socket, without a bus daemon. The
 * subject shows the cost of a call with the mechanism that most Linux services
 * use. The child process is the server.
 */
#include "host/bench/bench_peer.h"

#include "base/err.h"
#include "base/fd.h"

#include <dbus/dbus.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALL_MS     5000
#define ADDRESS_MAX 256
#define PATH        "/org/tandem/Bench"
#define INTERFACE   "org.tandem.Bench"

struct dbus_peer {
	struct bench_peer base;
	DBusConnection *connection;
	/* a pipe through which the child sends the address of its socket */
	int address[2];
	int command, pid;
};

/* ---- the server, in the child -------------------------------------------- */

struct service {
	DBusServer *server;
	DBusWatch *watch; /* libdbus's request to poll the listening socket */
	DBusConnection *connection;
};

static dbus_bool_t add_watch(DBusWatch *w, void *data)
{
	struct service *s = data;

	s->watch = w;
	return TRUE;
}

static void remove_watch(DBusWatch *w, void *data)
{
	struct service *s = data;

	if (s->watch == w)
		s->watch = NULL;
}

static void take_connection(DBusServer *server, DBusConnection *c, void *data)
{
	struct service *s = data;

	if (!s->connection)
		s->connection = dbus_connection_ref(c);
}

/* Serve `trips` D-Bus method calls. The first call of this function serves no
 * method calls: it sets up the server and accepts the connection. */
static int dbus_serve(void *arg, unsigned trips)
{
	static struct service service;
	struct dbus_peer *d = arg;
	int ret = 0;

	if (!service.server) {
		char *address;

		service.server = dbus_server_listen("unix:tmpdir=/tmp", NULL);
		if (!service.server)
			return -EIO;
		dbus_server_set_new_connection_function(
			service.server, take_connection, &service, NULL);
		if (!dbus_server_set_watch_functions(service.server, add_watch,
			    remove_watch, NULL, &service, NULL))
			return -ENOMEM;
		address = dbus_server_get_address(service.server);
		if (!address)
			return -ENOMEM;
		ret = fd_write_all(d->address[1], address, strlen(address) + 1);
		dbus_free(address);
		if (ret)
			return ret;

		while (!service.connection) {
			struct pollfd p = { -1, POLLIN, 0 };

			if (!service.watch)
				return -EIO;
			p.fd = dbus_watch_get_unix_fd(service.watch);
			if (poll(&p, 1, CALL_MS) != 1)
				return -ETIMEDOUT;
			dbus_watch_handle(service.watch, DBUS_WATCH_READABLE);
		}
		/* Stop listening, because no second connection is expected.
		 * dbus_server_disconnect() also removes the socket's file. */
		dbus_server_disconnect(service.server);
		return 0;
	}
	for (unsigned i = 0; i < trips; i++) {
		DBusMessage *call, *reply;

		while (!(
			call = dbus_connection_pop_message(service.connection)))
			if (!dbus_connection_read_write(service.connection, -1))
				return -EPIPE;
		reply = dbus_message_new_method_return(call);
		dbus_message_unref(call);
		if (!reply)
			return -ENOMEM;
		dbus_connection_send(service.connection, reply, NULL);
		dbus_connection_flush(service.connection);
		dbus_message_unref(reply);
	}
	return 0;
}

/* ---- the client ---------------------------------------------------------- */

static int dbus_trip(struct bench_peer *p, struct err *e)
{
	struct dbus_peer *d = (struct dbus_peer *)p;
	DBusError why = DBUS_ERROR_INIT;
	DBusMessage *reply = NULL;
	DBusMessage *call =
		dbus_message_new_method_call(NULL, PATH, INTERFACE, "Nothing");

	if (!call)
		return err_set(e, ENOMEM, "no memory for a D-Bus call");
	reply = dbus_connection_send_with_reply_and_block(
		d->connection, call, CALL_MS, &why);
	dbus_message_unref(call);
	if (reply) {
		dbus_message_unref(reply);
		return 0;
	}
	err_set(e, EPIPE, "the D-Bus call failed: %s", why.message);
	dbus_error_free(&why);
	return -EPIPE;
}

static int dbus_batch(struct bench_peer *p, unsigned trips, struct err *e)
{
	return bench_announce(((struct dbus_peer *)p)->command, trips, e);
}

static void dbus_close(struct bench_peer *p)
{
	struct dbus_peer *d = (struct dbus_peer *)p;

	if (d->connection) {
		dbus_connection_close(d->connection);
		dbus_connection_unref(d->connection);
	}
	fd_close(&d->address[0]);
	fd_close(&d->address[1]);
	bench_reap(&d->command, &d->pid);
	free(d);
}

static const struct bench_peer_ops dbus_ops = { dbus_batch, dbus_trip,
	dbus_close };

static int dbus_dial(struct dbus_peer *d, struct err *e)
{
	DBusError why = DBUS_ERROR_INIT;
	char address[ADDRESS_MAX];
	size_t n = 0;
	int ret = bench_announce(d->command, 1, e);

	if (ret)
		return ret;
	/* Close this process's copy of the writing end, so that a read returns
	 * end-of-file if the child dies. */
	fd_close(&d->address[1]);
	do {
		if (n == ADDRESS_MAX ||
			fd_read_exact(d->address[0], &address[n], 1, -1))
			return err_set(e, EIO,
				"cannot listen for D-Bus calls at a socket in "
				"/tmp");
	} while (address[n++]);
	d->connection = dbus_connection_open_private(address, &why);
	if (!d->connection) {
		err_set(e, EIO, "cannot connect by D-Bus: %s", why.message);
		dbus_error_free(&why);
		return -EIO;
	}
	dbus_connection_set_exit_on_disconnect(d->connection, FALSE);
	return 0;
}

int bench_dbus_open(struct bench_peer **out, const struct bench_subject *s,
	const struct bench_cpus *cpus, struct err *e)
{
	struct dbus_peer *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return err_set(e, ENOMEM, "no memory for the measurements");
	*d = (struct dbus_peer){
		.base = { &dbus_ops }, .address = { -1, -1 }, .command = -1
	};
	if (pipe2(d->address, O_CLOEXEC))
		ret = err_sys(e, errno, "cannot create a pipe");
	else
		ret = bench_fork(
			dbus_serve, d, cpus->device, &d->command, &d->pid, e);
	if (!ret)
		ret = dbus_dial(d, e);
	if (ret)
		dbus_close(&d->base);
	else
		*out = &d->base;
	return ret;
}
