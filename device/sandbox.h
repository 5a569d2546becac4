/*
 * The seccomp filter: once the device is set up it needs memory, its link,
 * its doorbells and the clock, and nothing else. All threads are confined,
 * and whatever breaks out of the list is killed with the whole process.
 *
 * Not in sanitizer builds, whose runtimes need more.
 */
#ifndef DEVICE_SANDBOX_H
#define DEVICE_SANDBOX_H

struct err;

/* 0, or -errno when the system refuses. Every thread has been started. */
int sandbox_enter(struct err *);

#endif
