/*
 * The watcher: a thread that sleeps until the host hangs up or a signal
 * requests the end of the process. The watcher sets a flag for the main thread;
 * if the main thread does not end the process soon (it may be inside a long
 * request), the watcher does. If the host can block a ring of the doorbell, the
 * watcher interrupts rings that last too long.
 */
#ifndef DEVICE_WATCH_H
#define DEVICE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct channel;
struct err;

struct watch {
	pthread_t thread, main;        /* main: the thread that started it */
	const struct channel *channel; /* borrowed */
	int link, signal_fd;           /* borrowed */
	int stop_fd; /* eventfd: the watcher is no longer needed */
	pid_t host;
	_Atomic int signal; /* received; 0: none */
};

/*
 * Block SIGTERM and SIGINT in this thread and the threads that it starts, and
 * make them readable from *fd. SIGPIPE is ignored: writing to a closed doorbell
 * or standard error returns EPIPE, which the writer handles.
 */
int watch_signals(int *fd, struct err *);

/* The signal that arrived; 0: none. */
int watch_take_signal(int fd);

int watch_start(struct watch *, const struct channel *, int link, int signal_fd,
	pid_t host, struct err *);
void watch_stop(struct watch *);

#endif
