/*
 * Listens at a socket with a path, and starts one process for each host that
 * connects to the socket. Several clients may be connected at once, but a
 * connection is not served before its hello message. A client that sends
 * nothing or garbage, or belongs to another user, is refused with an error
 * message and delays no other client. No client can end the listener.
 *
 * Only one thread may call the function.
 */
#ifndef DEVICE_LISTEN_H
#define DEVICE_LISTEN_H

#include "ipc/wire.h"

#include <stdbool.h>

struct channel;
struct err;

/* A host whose hello has arrived. */
struct client {
	struct channel *channel; /* the caller must close it */
	struct wire_hello hello;
	int link; /* descriptor of the channel's socket */
};

/*
 * Create a socket at `path`, which only this user can reach, and wait for
 * hosts. Returns 1 with *client in the process that must serve the host: with
 * `once` this is the calling process; otherwise it is a new process for each
 * host, and *forked is set. Returns 0 in the listening process after a signal,
 * with the signal's number in *signo; or a negative errno if waiting fails. The
 * process that created the path removes it.
 */
int listen_for_host(const char *path, bool once, int signal_fd,
	struct client *client, int *signo, bool *forked, struct err *);

#endif
