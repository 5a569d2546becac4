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

#include <stddef.h>
#include <sys/types.h>

struct err;

struct launch {
	pid_t pid;  /* 0: none, or already reaped */
	int status; /* of waitpid, once reaped */
};

/*
 * The device program: the one TANDEM_NPU names, else the one beside this
 * executable, else a bare name for PATH to find. The way it was found, in
 * words, or NULL when TANDEM_NPU names what cannot be run (errno says why).
 */
const char *launch_find(char *path, size_t size);

/* Start it. *link_fd is the host's end, the caller's. */
int launch_start(struct launch *, int *link_fd, struct err *);

/* Wait at most timeout_ms for the child to end: 0, or -EAGAIN. */
int launch_wait(struct launch *, unsigned timeout_ms);

/* Wait at most timeout_ms, then SIGKILL; the child is reaped. */
void launch_end(struct launch *, unsigned timeout_ms);

/* "killed by signal 9 (Killed)", "exit status 1". */
void launch_describe(const struct launch *, char *buf, size_t size);

#endif
