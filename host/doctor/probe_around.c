/* Probes of the environment: programs, message buses, libraries, and the device
 * program. */
#include "host/doctor/probe.h"

#include "base/clock.h"
#include "host/npu/launch.h"

#include <dbus/dbus.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define BUS_WAIT_MS 1000

void probe_gnuplot(struct finding *f)
{
	char path[PATH_MAX];

	finding_means(f,
		"gnuplot draws the plots of tandem bench; everything else "
		"works without it.");
	if (probe_program("gnuplot", path, sizeof(path))) {
		finding_is(f, PROBE_OK, "%.300s", path);
		return;
	}
	finding_is(f, PROBE_MISSING, "gnuplot is not in PATH");
	finding_fix(f, "%sapt-get install gnuplot-nox", probe_sudo());
}

/*
 * Send Hello on a bus and wait for the reply. libdbus's blocking calls are not
 * used, because they first flush the connection, and therefore never return if
 * the peer accepts the connection but does not authenticate. Returns whether
 * the bus replied; `name` is then the unique name of the connection.
 */
static bool bus_answers(DBusConnection *bus, char *name, size_t size)
{
	uint64_t until = clock_ns() + BUS_WAIT_MS * 1000000ull;
	const char *unique = "?";
	DBusMessage *msg;
	bool ok = false;

	msg = dbus_message_new_method_call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS,
		DBUS_INTERFACE_DBUS, "Hello");
	if (!msg)
		return false;
	dbus_connection_send(bus, msg, NULL);
	dbus_message_unref(msg);
	while (!ok && clock_ns() < until &&
		dbus_connection_read_write(bus, BUS_WAIT_MS / 10)) {
		msg = dbus_connection_pop_message(bus);
		if (!msg)
			continue;
		ok = dbus_message_get_type(msg) ==
			DBUS_MESSAGE_TYPE_METHOD_RETURN;
		if (ok)
			dbus_message_get_args(msg, NULL, DBUS_TYPE_STRING,
				&unique, DBUS_TYPE_INVALID);
		snprintf(name, size, "%s", unique);
		dbus_message_unref(msg);
	}
	return ok;
}

/* Probe a message bus. At the end, free the memory that libdbus caches
 * (dbus_shutdown), because the program might not use a bus again. This is safe,
 * because no other thread uses libdbus while the probe runs. */
static void probe_bus(struct finding *f, const char *address)
{
	DBusError error = DBUS_ERROR_INIT;
	DBusConnection *bus = dbus_connection_open_private(address, &error);
	char name[64];

	if (!bus) {
		finding_is(f, PROBE_MISSING, "%s: %s", address, error.name);
		dbus_error_free(&error);
		dbus_shutdown();
		return;
	}
	dbus_connection_set_exit_on_disconnect(bus, FALSE);
	if (bus_answers(bus, name, sizeof(name)))
		finding_is(f, PROBE_OK, "%s answers; this connection is %s",
			address, name);
	else
		finding_is(f, PROBE_MISSING, "%s: no answer within %d ms",
			address, BUS_WAIT_MS);
	dbus_connection_close(bus);
	dbus_connection_unref(bus);
	dbus_shutdown();
}

void probe_session_bus(struct finding *f)
{
	const char *set = getenv("DBUS_SESSION_BUS_ADDRESS");
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "unix:path=%s/bus", dir ? dir : "");
	/* Ignore "autolaunch:", which would start a bus. */
	if (set && *set && strncmp(set, "autolaunch:", 11))
		probe_bus(f, set);
	else if (dir && !access(path + strlen("unix:path="), F_OK))
		probe_bus(f, path);
	else
		finding_is(f, PROBE_MISSING, "no session bus is running");
	finding_means(f,
		"Generating text does not need a session bus; tandem serve "
		"--dbus does.");
	if (f->state != PROBE_OK)
		finding_fix(f, "dbus-run-session -- tandem doctor");
}

void probe_system_bus(struct finding *f)
{
	const char *set = getenv("DBUS_SYSTEM_BUS_ADDRESS");

	probe_bus(f,
		set && *set ? set
			    : "unix:path=/var/run/dbus/system_bus_socket");
	finding_means(f,
		"Generating text does not need the system bus; tandem serve "
		"--dbus-system does.");
	if (f->state != PROBE_OK)
		finding_fix(f, "%sservice dbus start", probe_sudo());
}

/* Called for each loaded shared library: if the library is liburing, copy its
 * path to `path`, which has PATH_MAX bytes. Returns whether the library is
 * liburing. */
static int is_liburing(struct dl_phdr_info *info, size_t size, void *path)
{
	return info->dlpi_name && strstr(info->dlpi_name, "liburing.so") &&
		realpath(info->dlpi_name, path);
}

void probe_libraries(struct finding *f)
{
	char path[PATH_MAX];
	const char *uring = "built in", *at;
	int major, minor, micro;

	/* liburing 2.3 has no function that returns its version, so take the
	 * version from the file name: 2.3 for /usr/lib/liburing.so.2.3. */
	if (dl_iterate_phdr(is_liburing, path)) {
		at = strstr(path, ".so.");
		uring = at ? at + 4 : "unknown";
	}
	dbus_get_version(&major, &minor, &micro);
	finding_is(f, PROBE_OK,
		"liburing %s, zstd %s, dbus %d.%d.%d, "
		"jansson %s",
		uring, ZSTD_versionString(), major, minor, micro,
		JANSSON_VERSION);
	finding_number(f, "zstd", ZSTD_versionNumber());
	finding_means(f, "Give these versions in a bug report.");
}

void probe_device(struct finding *f)
{
	char path[PATH_MAX];
	const char *where = launch_find(path);
	bool found = where &&
		(strchr(path, '/') ||
			probe_program("tandem-npu", path, sizeof(path)));

	finding_means(f,
		"tandem starts this program to run the model's layers, unless "
		"--device names a running one.");
	if (found) {
		finding_is(f, PROBE_OK, "%.300s (%s)", path, where);
	} else if (where) {
		finding_is(f, PROBE_MISSING,
			"tandem-npu is neither beside tandem nor in PATH");
		finding_fix(f, "export TANDEM_NPU=/path/to/tandem-npu");
	} else {
		finding_is(f, PROBE_MISSING,
			"TANDEM_NPU is '%.300s', which cannot be run",
			getenv("TANDEM_NPU"));
		finding_fix(f, "unset TANDEM_NPU");
	}
}
