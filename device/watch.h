/*
 * The watcher: a thread that sleeps until the host hangs up or a signal
 * requests the end of the process. The watcher sets a flag for the main thread;
 * if the main thread does not end the process soon, because it is inside a long
 * request, the watcher ends the process. A malicious host may block this
 * process inside the write that rings the doorbell; the watcher interrupts
 * writes that take too long.
 */
#ifndef DEVICE_WATCH_H
#define DEVICE_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct channel;
struct err;

struct watch {
	/* the watcher, and the main thread, which called watch_start */
	pthread_t thread, main;
	const struct channel *channel; /* borrowed */
	int link, signal_fd;           /* borrowed */
	int stop_fd; /* eventfd by which watch_stop ends the watcher */
	pid_t host;
	_Atomic int signal; /* number of the received signal; 0: none */
};

/*
 * Block SIGTERM and SIGINT in this thread and the threads that it starts, and
 * make them readable from *fd. Also ignore SIGPIPE, so that a write to a closed
 * doorbell or to a closed standard error returns EPIPE.
 */
int watch_signals(int *fd, struct err *);

/* Read the number of a signal from the descriptor of watch_signals. Returns 0
 * if no signal has arrived. */
int watch_take_signal(int fd);

int watch_start(struct watch *, const struct channel *, int link, int signal_fd,
	pid_t host, struct err *);
void watch_stop(struct watch *);

#endif
