/*
 * The server on D-Bus: other programs of the same user submit requests
 * (docs/dbus.md). A thread of its own owns the connection and sends all replies
 * and signals; texts are generated in the same engine as those of HTTP requests
 * (engine.h). Generated text does not travel in messages: each request has a
 * pipe, so a slow or dead reader affects only itself.
 */
#ifndef HOST_SERVE_BUS_H
#define HOST_SERVE_BUS_H

#include "host/serve/server.h"

#include <stdbool.h>

struct bus;
struct err;
struct server;

#define BUS_NAME "dev.tandem.Engine1"

/*
 * Own the name on that bus and serve from here on. -errno with a message if
 * there is no bus, or the name is refused; then *out is NULL. The server must
 * outlive the bus.
 */
int bus_open(struct bus **out, struct server *, enum server_bus, struct err *);

/* Whether any text has not been delivered completely. Any thread. */
bool bus_is_busy(struct bus *);

/* Whether the bus has closed the connection, as when the session ends. Any
 * thread. */
bool bus_is_gone(struct bus *);

/* Deliver pending messages for up to a second, then release the name. The
 * engine must be stopped. NULL: nothing to do. */
void bus_close(struct bus *);

#endif
