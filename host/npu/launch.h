/*
 * The device process as a child of the host: finding the program, starting it
 * with one end of a socket pair, and waiting for its end. The child never
 * outlives its struct launch: launch_end waits for a limited time and then
 * kills the child.
 *
 * The child is in a process group of its own, so signals from the terminal
 * (Ctrl-C, Ctrl-Z) reach only the host. The device ends when the host closes
 * the connection or exits.
 */
#ifndef HOST_NPU_LAUNCH_H
#define HOST_NPU_LAUNCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct launch {
	pid_t pid;  /* child's id; 0 if there is none or it was reaped */
	int status; /* exit status from waitpid, after the child was reaped */
};

struct launch_opts {
	const char *program; /* path of the program; NULL means launch_find */
	bool quiet;          /* discard the child's standard error */
	/* Number of the device, from 1. A replacement has the next number; most
	 * planned faults apply to device 1 only. */
	unsigned life;
	/* argument of the device's option --fault, or NULL */
	const char *fault;
	/* arguments of --va-extended, --va-defer and --va-map-us; 0 means
	 * default */
	uint64_t va_extended;
	uint32_t va_defer, va_map_us;
	/* Arguments (file names) of the device's options --coherence-report and
	 * --coherence-suppress, or NULL. */
	const char *coherence_report, *coherence_suppress;
};

/*
 * Find the device program, in this order: $TANDEM_NPU; the folder of the host
 * program (base/home.h); bin in the installation prefix; a bare name, which is
 * looked up in PATH. Returns a phrase with the place of the program, such as
 * "in PATH", or NULL with errno set if TANDEM_NPU is set but not executable.
 */
const char *launch_find(char path[PATH_MAX]);

/*
 * Start the device. *link_fd is the host's end of the socket pair; the caller
 * closes it. Of the host's descriptors the child inherits only standard error.
 * Returns 0 or a negative errno.
 */
int launch_start(struct launch *, const struct launch_opts *, int *link_fd,
	struct err *);

/* Wait up to timeout_ms for the child to end, and reap it. Returns 0, or
 * -EAGAIN if the child still runs. */
int launch_wait(struct launch *, unsigned timeout_ms);

/* Wait up to timeout_ms for the child to end, then kill it with SIGKILL. The
 * child is reaped in both cases. */
void launch_end(struct launch *, unsigned timeout_ms);

/*
 * Describe how the child ended: "killed by signal 9 (Killed)", "exit status 1".
 */
void launch_describe(const struct launch *, char *buf, size_t size);

#endif
