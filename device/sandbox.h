/*
 * The seccomp filter: after its set-up the device needs only system calls for
 * memory, its link, its doorbells and the clock. Any other system call kills
 * the process. The filter applies to all threads.
 *
 * Sanitizer builds have no filter, because their runtimes make more system
 * calls.
 */
#ifndef DEVICE_SANDBOX_H
#define DEVICE_SANDBOX_H

struct err;

/* Returns 0, or a negative errno if the system refuses. Call this after all
 * threads have started, because the filter forbids starting threads. */
int sandbox_enter(struct err *);

#endif
