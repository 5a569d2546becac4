/*
 * Serving one host: get the connection, set up, run requests until the host's
 * goodbye. Requests run on the calling thread. Other threads are the workers,
 * the loader, and a watcher that waits for the host's end and for signals, so
 * that both take effect during a long request.
 *
 * With a listening socket, hosts connect one after another, and a forked
 * process serves each: it enters the sandbox for good after its set-up and ends
 * with its host, so no host can affect the next. A second host at the same time
 * is refused with an error message (docs/design/device-loss.md).
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
	const char *listen; /* path of a socket to create */
	bool once;          /* one host only, in this process */
	/* When listening without `once`: in shared memory, because all forked
	 * processes count in it, and with life 0. */
	struct fault *fault;
	struct coherence_report *file; /* of reports; NULL: none */
	bool sandbox;
	uint64_t va_extended; /* this and the next as in device/device.h */
	uint32_t va_defer, va_map_us;
};

struct serve_result {
	uint64_t violations; /* of the coherence contract */
	int signal;          /* ended the process; 0: none */
	bool met;            /* a host's hello has arrived */
	bool forked;         /* this is a forked process */
};

/*
 * Returns in each process that listening forked, as fork does; the caller ends
 * the process by the result. 0 after a goodbye or a signal; -EPIPE when the
 * host is gone without a goodbye; another -errno with *e when something else
 * failed. Violations have been reported on standard error. When the host ends
 * or a signal arrives during a long request, the watcher ends the process: with
 * status 3, or 128 + the signal's number.
 */
int serve(const struct serve_opts *, struct serve_result *, struct err *);

#endif
