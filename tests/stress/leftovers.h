/*
 * What a process has that it could leave behind: open descriptors (memfds and
 * sockets among them), threads, children, mapped memory of the pair's. Looked
 * at before something and behind it; what is more then was left. Values; one
 * thread.
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
	/* Dead ones that nobody took note of are among them; 0 where the kernel
	 * does not tell. */
	unsigned children;
};

int leftovers_look(struct leftovers *, struct err *);

/* False: there is more now of anything but threads, named in `what`. */
bool leftovers_no_more(const struct leftovers *before,
	const struct leftovers *now, char *what, size_t size);

/*
 * Behind the end of all that was begun. False: something is there that was not
 * there before, named in `what`. Threads that the kernel keeps for a while
 * (io_uring's) are waited for, two seconds at most.
 */
bool leftovers_none(const struct leftovers *before, char *what, size_t size);

#endif
