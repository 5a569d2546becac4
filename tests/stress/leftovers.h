/*
 * Detects resources that a process leaks: open descriptors (including memfds
 * and sockets), threads, children, and mapped buffers. The resources are
 * counted before and after a schedule; the difference was leaked. Only one
 * thread may call the functions.
 */
#ifndef TESTS_STRESS_LEFTOVERS_H
#define TESTS_STRESS_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>

struct err;

#define LEFTOVER_FDS 256

struct leftovers {
	bool fd[LEFTOVER_FDS];
	unsigned fds, maps; /* mappings of buffers ("tandem:...") */
	/* number of children, including zombies; 0 if the kernel does not
	 * report children */
	unsigned children;
};

int leftovers_look(struct leftovers *, struct err *);

/* Whether the process now uses no more of any resource than before; threads are
 * not compared. If it uses more of a resource, `what` names the resource. */
bool leftovers_no_more(const struct leftovers *before,
	const struct leftovers *now, char *what, size_t size);

/*
 * Whether nothing was leaked. If something was leaked, `what` names it. Call
 * this function after the schedule has ended. The kernel keeps the threads of
 * io_uring for a while, so the function waits for their end, at most two
 * seconds.
 */
bool leftovers_none(const struct leftovers *before, char *what, size_t size);

#endif
