/*
 * Detection of resources that a process leaks: open descriptors (memfds and
 * sockets included), threads, children, mapped buffers. Counted before and
 * after; the difference was leaked. Values; one thread.
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
	/* Zombies are included; 0 if the kernel
	 * does not tell. */
	unsigned children;
};

int leftovers_look(struct leftovers *, struct err *);

/* False: there is more of something other than threads, named in `what`. */
bool leftovers_no_more(const struct leftovers *before,
	const struct leftovers *now, char *what, size_t size);

/*
 * After everything has ended. False: something was leaked, named in `what`.
 * Threads that the kernel keeps for a while
 * (io_uring's) are waited for, two seconds at most.
 */
bool leftovers_none(const struct leftovers *before, char *what, size_t size);

#endif
