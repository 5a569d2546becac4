/*
 * The server on a message bus: other programs of the same user ask for texts by
 * D-Bus (docs/dbus.md). A thread of its own owns the connection and what is
 * told there; texts are computed where those of HTTP are (answering.h). Tokens
 * never travel as messages: a text has a pipe, and a reader that is slow or
 * gone is its own affair. Refuses to know how texts are made.
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
 * Own the name on that bus, and answer from here on. -errno with a sentence
 * where there is no bus, or it does not let us have the name; then *out is
 * NULL. The server outlives it.
 */
int bus_open(struct bus **out, struct server *, enum server_bus, struct err *);

/* Texts that have not been told to their end. Any thread. */
bool bus_is_busy(struct bus *);

/* The bus is gone, as a session that ended is. Any thread. */
bool bus_is_gone(struct bus *);

/* Tells what can be told within a second, gives the name back. The answering
 * has stopped. NULL is nothing. */
void bus_close(struct bus *);

#endif
