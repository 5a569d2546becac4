/*
 * Starts `tandem serve`, from the running program's file, for a measurement.
 * The server listens on a Unix socket in a temporary folder. It exits when its
 * parent exits, even if the parent is killed. One thread at a time uses it.
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

/* Stop the server and wait until it has exited. Returns 0 if it exited with
 * status 0, or if it does not run. */
int serve_process_close(struct serve_process *, const char *name, struct err *);

#endif
