/*
 * A socket at a path, and one process for each host that connects to it.
 * Several clients may be connected at once, but a connection counts for nothing
 * until it has said hello: one that is silent, sends garbage or belongs to
 * another user is refused with a sentence and makes nobody wait. Nothing that a
 * client does ends the listener.
 *
 * One thread.
 */
#ifndef DEVICE_LISTEN_H
#define DEVICE_LISTEN_H

#include "ipc/wire.h"

#include <stdbool.h>

struct channel;
struct err;

/* A host that has said hello. */
struct client {
	struct channel *channel; /* the caller closes it */
	struct wire_hello hello;
	int link; /* the channel's */
};

/*
 * Create a socket at `path`, for this user alone, and wait for hosts. 1 with
 * *guest in a process that shall serve it: a new one for each host, *forked
 * being set, or with `once` this one. 0 in the listening process after a
 * signal, whose number is in *signo; -errno when waiting is impossible. The
 * path is removed by the process that created it.
 */
int listen_for_host(const char *path, bool once, int signal_fd,
	struct client *guest, int *signo, bool *forked, struct err *);

#endif
