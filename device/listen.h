/*
 * A socket at a path and who knocks there. Several may be connected at once,
 * but a connection counts for nothing until it has said hello: one that is
 * silent, says garbage or belongs to another user is turned away with a
 * sentence and keeps nobody waiting.
 *
 * It never ends because of what a client does. Who is served, and by which
 * process, is serve.c's.
 *
 * One thread. The listener owns its socket and the connections without a hello.
 */
#ifndef DEVICE_LISTEN_H
#define DEVICE_LISTEN_H

#include "ipc/wire.h"

#include <stdint.h>

struct channel;
struct err;

/* Connections without a hello; the oldest goes when there is one more. */
#define LISTEN_KNOCKS 8

struct listener {
	const char *path; /* borrowed */
	int fd, signal_fd;
	unsigned n_knocks;
	struct knock {
		int fd;
		uint64_t until_ns; /* its patience ends */
	} knock[LISTEN_KNOCKS];    /* the oldest first */
};

/* A host that has said hello. */
struct guest {
	struct channel *channel; /* whoever takes the guest closes it */
	struct wire_hello hello;
	int link; /* the channel's */
};

enum listen_news {
	LISTEN_HOST,   /* *guest is there */
	LISTEN_SIGNAL, /* to be read from the signal descriptor */
	LISTEN_OTHER,  /* the descriptor that was to be watched as well */
};

/* 0: the path is there, for this user alone. */
int listener_open(
	struct listener *, const char *path, int signal_fd, struct err *);

/* Which of the news came, or -errno; `other_fd` may be -1. */
int listener_wait(
	struct listener *, int other_fd, struct guest *, struct err *);

/* Close what it has open; the path stays. */
void listener_close(struct listener *);

/* Tell a guest why it is not served, and let it go. */
void guest_refuse(struct guest *, int status, const char *why);

#endif
