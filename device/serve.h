/*
 * The device's life with one host: get the connection, set up, run requests
 * until the host says goodbye. Requests run on the calling thread; beside it
 * are the workers, the loader, and a watcher that looks only for the host's
 * end and for signals, so that neither has to wait for a long request.
 *
 * Where it listens, hosts come one after another, and each is served by a
 * process of its own that this one forks: confined for good once it is set up,
 * and gone with its host, whatever that did to it. A second host at the same
 * time is refused with a sentence (docs/design/device-loss.md).
 */
#ifndef DEVICE_SERVE_H
#define DEVICE_SERVE_H

#include <stdbool.h>
#include <stdint.h>

struct coherence_report;
struct err;
struct fault;

struct serve_opts {
	int fd;             /* connected to the host; -1: listen */
	const char *listen; /* path of a socket to make */
	bool once;          /* one host only, and no process beside this */
	/* Where hosts come one after another: in memory that the processes of
	 * all of them share, and of life 0. */
	struct fault *fault;
	struct coherence_report *file; /* of reports; NULL: none */
	bool sandbox;
	uint64_t va_extended; /* these as in device/device.h */
	uint32_t va_defer, va_map_us;
};

struct serve_result {
	uint64_t violations; /* of the coherence contract */
	int signal;          /* that ended it; 0: none */
	bool met;            /* a host has said its hello */
	bool forked;         /* this is the process of one of many */
};

/*
 * Returns in each of the processes that listening made, as after fork: the
 * caller ends by what it returned. 0 after a goodbye or a signal; -EPIPE when
 * the host is gone without one; another -errno with *e when something else
 * failed. Violations have been reported on standard error. When the host goes
 * during a long request, or a signal comes, the watcher ends the process
 * itself: with status 3, or 128 + the signal's number.
 */
int serve(const struct serve_opts *, struct serve_result *, struct err *);

#endif
