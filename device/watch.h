/*
 * The watcher: a thread that sleeps until the host hangs up or a signal asks
 * the process to end. It tells the main thread by a flag, and if that does
 * not end the process soon (it may be in the middle of a long request), the
 * watcher does. Where the host can hold up a ring of the doorbell, it looks
 * whether one lasts, and ends it.
 */
#ifndef DEVICE_WATCH_H
#define DEVICE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct channel;
struct err;

struct watch {
	pthread_t thread, main;        /* main: whoever started it */
	const struct channel *channel; /* borrowed */
	int link, signal_fd;           /* borrowed */
	int stop_fd; /* eventfd: the watcher is no longer needed */
	pid_t host;
	_Atomic int signal; /* that came; 0: none */
};

/*
 * SIGTERM and SIGINT as a descriptor to read, blocked otherwise: for this
 * thread and those it starts. SIGPIPE is ignored: a doorbell or a standard
 * error whose other end is closed is found where it matters.
 */
int watch_signals(int *fd, struct err *);

/* Read which signal came. */
int watch_take_signal(int fd);

int watch_start(struct watch *, const struct channel *, int link, int signal_fd,
	pid_t host, struct err *);
void watch_stop(struct watch *);

#endif
