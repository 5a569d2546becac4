/*
 * Serves one host: connects, sets up the device, and runs requests until the
 * host's goodbye. Requests run on the calling thread. The other threads are the
 * workers (which share the work of an operator), the loader (which builds
 * graphs), and a watcher. The watcher waits for signals and for the end of the
 * host, so that a signal, or the end of the host, can end the process during a
 * long request.
 *
 * With a listening socket, hosts connect one after another, and a forked
 * process serves each host. The forked process enters the sandbox after its
 * set-up and ends when its host ends, so that no host can affect the next host.
 * A second host that connects meanwhile is refused with an error message
 * (docs/design/device-loss.md).
 */
#ifndef DEVICE_SERVE_H
#define DEVICE_SERVE_H

#include <stdbool.h>
#include <stdint.h>

struct coherence_report;
struct err;
struct fault;

struct serve_opts {
	/* socket connected to the host; -1: listen instead */
	int fd;
	const char *listen; /* path of a socket to create */
	bool once;          /* true: serve only one host, in this process */
	/* Faults to inject. When listening without `once`, the struct must be
	 * in shared memory, because all forked processes update its counts, and
	 * its member `life` must be 0: no host has connected yet. */
	struct fault *fault;
	/* file to which violations are reported; NULL: none */
	struct coherence_report *file;
	bool sandbox;
	/* va_extended, va_defer, va_map_us: for struct device_config */
	uint64_t va_extended;
	uint32_t va_defer, va_map_us;
};

struct serve_result {
	uint64_t violations; /* number of coherence violations */
	int signal;          /* signal that ended the process; 0: none */
	bool met;            /* true: a host has sent a valid hello */
	/* true: this process was forked to serve one host */
	bool forked;
};

/*
 * When listening without `once`, the function returns several times, as fork
 * does: in each forked process after its host, and in the listening process
 * after a signal. After each return the caller ends its process according to
 * the result. Returns 0 after a goodbye or a signal; -EPIPE if the host has
 * ended without a goodbye; or another negative errno with *e. Violations have
 * been printed on standard error. If the host ends during a long request, the
 * watcher ends the process with status 3; if a signal arrives, with status 128
 * plus the signal's number.
 */
int serve(const struct serve_opts *, struct serve_result *, struct err *);

#endif
