/*
 * The server on D-Bus: other programs of the same user submit requests
 * (docs/dbus.md). One thread of the server, the bus thread, owns the D-Bus
 * connection and sends all replies and signals. The engine that serves HTTP
 * requests also generates the texts for D-Bus clients (engine.h). Generated
 * text is not sent in messages: each request has a pipe, so that a slow or dead
 * client delays only its own text.
 */
#ifndef HOST_SERVE_BUS_H
#define HOST_SERVE_BUS_H

#include "host/serve/server.h"

#include <stdbool.h>

struct bus;

#define BUS_NAME "dev.tandem.Engine1"

/*
 * Connect to the bus, own the name BUS_NAME there, and serve from then on. The
 * server must outlive *out. Returns 0, or a negative errno with a message, for
 * example if there is no bus or the name is refused; *out is then NULL.
 */
int bus_open(struct bus **out, struct server *, enum server_bus, struct err *);

/* Returns whether any text is still being generated or delivered; false for
 * NULL. Any thread may call. */
bool bus_is_busy(struct bus *);

/* Whether the bus has closed the connection, for example because the user's
 * session has ended; false for NULL. Any thread may call. */
bool bus_is_gone(struct bus *);

/* Deliver pending messages for up to a second, then close the connection, which
 * releases the name. Call this only after engine_stop. Does nothing for NULL.
 */
void bus_close(struct bus *);

#endif
