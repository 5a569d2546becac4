/*
 * The device process as the host's child: finding the program, starting it
 * with one end of a socket pair, and seeing it end. It never outlives the
 * handle: launch_end waits a bounded time and then kills.
 *
 * The child is a process group of its own: what the user types at the
 * terminal (Ctrl-C, Ctrl-Z) is the host's to answer, and the device ends when
 * the host says goodbye or is gone.
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
	const char *program; /* NULL: that of launch_find */
	bool quiet;          /* what it says on standard error is thrown away */
	/* Which it is, from 1: another takes the place of one that was lost,
	 * and most faults are for the first. */
	unsigned life;
	const char *fault;    /* a plan of them, as its option; NULL: none */
	uint64_t va_extended; /* as its options; 0: not said */
	uint32_t va_defer, va_map_us;
	/* Files that it is given as its options of these names; NULL: none. */
	const char *coherence_report, *coherence_suppress;
};

/*
 * The device program: the one TANDEM_NPU names, else the one where Tandem lies
 * (base/home.h), else the one in bin of the prefix that this is installed in,
 * else a bare name for PATH to find. The way it was found, in words, or NULL
 * when TANDEM_NPU names what cannot be run (errno says why).
 */
const char *launch_find(char path[PATH_MAX]);

/*
 * Start it. *link_fd is the host's end, the caller's. Of this process's
 * descriptors the child has none but standard error.
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
