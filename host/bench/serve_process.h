/*
 * Starts `tandem serve` for a measurement; the server runs the same program
 * file as this process. The server listens on a Unix socket in a temporary
 * folder. The server exits when its parent exits, even if the parent is killed.
 * Only one thread at a time may use a server.
 */
#ifndef HOST_BENCH_SERVE_PROCESS_H
#define HOST_BENCH_SERVE_PROCESS_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

struct serve_process {
	pid_t pid; /* process id of the server; 0 if no server runs */
	char folder[64], socket[80];
};

/*
 * Start a server with these options of `tandem serve`, and wait until it
 * accepts connections. The server's messages go to standard error. `name` is
 * the name of the server in error messages. Returns 0; -ECANCELED if *cancel
 * was set; or another negative errno if the server cannot be started. After a
 * failure there is nothing to close.
 */
int serve_process_open(struct serve_process *, const char *name,
	const char *const *option, size_t n,
	const volatile sig_atomic_t *cancel, struct err *);

/* Stop the server and wait until it has exited. Returns 0 if the server exited
 * with status 0 or was not running. */
int serve_process_close(struct serve_process *, const char *name, struct err *);

#endif
