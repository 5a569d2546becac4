/*
 * Reads the address window of a running device from outside: the view that the
 * device publishes (ipc/window_view.h), whose descriptor is found in /proc.
 * Neither side of the pair takes part, so it works for a hanging device too.
 * Changes nothing.
 */
#ifndef HOST_DOCTOR_WINDOW_LOOK_H
#define HOST_DOCTOR_WINDOW_LOOK_H

#include "ipc/window_view.h"

#include <sys/types.h>

struct err;

/*
 * The window of process `pid`, or of a device that it started; pid 0: of the
 * only device. 0, a copy and its process. -ENOENT: none; -EINVAL: several;
 * -EACCES; -EPROTO: inconsistent data.
 */
int window_look(
	pid_t pid, struct window_view *out, pid_t *device, struct err *);

#endif
