/*
 * A `tandem serve` of this program that listens on a Unix socket in a folder of
 * its own, for a measurement. It ends with its parent, even if the parent is
 * killed. One thread at a time uses it.
 */
#ifndef HOST_BENCH_SERVE_PROCESS_H
#define HOST_BENCH_SERVE_PROCESS_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

struct serve_process {
	pid_t pid; /* 0 if it does not run */
	char folder[64], socket[80];
};

/*
 * Start a server with these options of `tandem serve`, and wait until it
 * accepts connections. Its messages go to standard error. `name` names it in
 * messages. Returns 0; -ECANCELED if *cancel was set; or another negative errno
 * if it cannot be started, and then nothing is left.
 */
int serve_process_open(struct serve_process *, const char *name,
	const char *const *option, size_t n,
	const volatile sig_atomic_t *cancel, struct err *);

/* End the server, and wait for its end. Returns 0 if it ended well, or if it
 * does not run. */
int serve_process_close(struct serve_process *, const char *name, struct err *);

#endif
