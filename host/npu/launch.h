/*
 * The device process as a child of the host: finding the program, starting it
 * with one end of a socket pair, and waiting for its end. It never outlives the
 * handle: launch_end waits a bounded time and then kills.
 *
 * The child is a process group of its own: signals from the terminal (Ctrl-C,
 * Ctrl-Z) go to the host only, and the device ends when the host says goodbye
 * or is gone.
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
	pid_t pid;  /* 0: none, or already reaped */
	int status; /* of waitpid, once reaped */
};

struct launch_opts {
	const char *program; /* NULL: found by launch_find */
	bool quiet;          /* discard its standard error */
	/* Number of the device, from 1: replacements have higher numbers, and
	 * most planned faults apply to the first only. */
	unsigned life;
	const char *fault;    /* fault plan for its option; NULL: none */
	uint64_t va_extended; /* for its options; 0: default */
	uint32_t va_defer, va_map_us;
	/* Files for its options of these names; NULL: none. */
	const char *coherence_report, *coherence_suppress;
};

/*
 * Find the device program: $TANDEM_NPU, or the one beside Tandem (base/home.h),
 * or in bin of the installation prefix, or a bare name for PATH. Returns how it
 * was found, in words, or NULL when TANDEM_NPU is not executable (errno says
 * why).
 */
const char *launch_find(char path[PATH_MAX]);

/*
 * Start the device. *link_fd is the host's end, owned by the caller. The child
 * inherits no descriptor but standard error.
 */
int launch_start(struct launch *, const struct launch_opts *, int *link_fd,
	struct err *);

/* Wait at most timeout_ms for the child to end: 0, or -EAGAIN. */
int launch_wait(struct launch *, unsigned timeout_ms);

/* Wait at most timeout_ms, then SIGKILL; the child is reaped. */
void launch_end(struct launch *, unsigned timeout_ms);

/* "killed by signal 9 (Killed)", "exit status 1". */
void launch_describe(const struct launch *, char *buf, size_t size);

#endif
