/*
 * A socket at a path, and one process for each host that connects to it.
 * Several clients may be connected at once, but a connection is not served
 * before its hello message: a client that sends nothing or garbage, or belongs
 * to another user, is refused with an error message and delays no other client.
 * No client can end the listener.
 *
 * One thread.
 */
#ifndef DEVICE_LISTEN_H
#define DEVICE_LISTEN_H

#include "ipc/wire.h"

#include <stdbool.h>

struct channel;
struct err;

/* A host whose hello has arrived. */
struct client {
	struct channel *channel; /* the caller closes it */
	struct wire_hello hello;
	int link; /* the channel's */
};

/*
 * Create a socket at `path`, for this user only, and wait for hosts. Returns 1
 * and *client in the process that must serve the host: with `once` this one,
 * otherwise a new one for each host, with *forked set. Returns 0 in the
 * listening process after a signal, with its number in *signo; -errno when
 * waiting fails. The process that created the path removes it.
 */
int listen_for_host(const char *path, bool once, int signal_fd,
	struct client *client, int *signo, bool *forked, struct err *);

#endif
