/*
 * The seccomp filter: after its set-up the device needs only memory, its link,
 * its doorbells and the clock. The filter applies to all threads; any other
 * system call kills the process.
 *
 * Not in sanitizer builds, whose runtimes make more system calls.
 */
#ifndef DEVICE_SANDBOX_H
#define DEVICE_SANDBOX_H

struct err;

/* 0, or -errno when the system refuses. Call after starting all threads, since
 * the filter forbids starting more. */
int sandbox_enter(struct err *);

#endif
