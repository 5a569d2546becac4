/*
 * The address window of a device that runs, looked at from outside: by what
 * the device shows (ipc/window_view.h), which is found among its descriptors in
 * /proc. Neither side of the pair takes part or notices; a device that hangs
 * is looked at as well as any. Reads, and changes nothing.
 */
#ifndef HOST_DOCTOR_WINDOW_LOOK_H
#define HOST_DOCTOR_WINDOW_LOOK_H

#include "ipc/window_view.h"

#include <sys/types.h>

struct err;

/*
 * The one of process `pid`, of a device that it started, or, where pid is 0, of
 * the only device there is: 0, a copy and whose it is. -ENOENT where there is
 * none, -EINVAL where there are several, -EACCES, -EPROTO where what is shown
 * cannot be.
 */
int window_look(
	pid_t pid, struct window_view *out, pid_t *device, struct err *);

#endif
