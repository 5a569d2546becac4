/*
 * Reads the address window of a running device process (the buffers that the
 * emulated NPU has mapped) from outside: the device publishes a copy of its
 * mappings in a memfd (ipc/window_view.h), which is found through /proc.
 * Neither the host nor the device process takes part, so reading works even if
 * the device hangs. Changes nothing.
 */
#ifndef HOST_DOCTOR_WINDOW_LOOK_H
#define HOST_DOCTOR_WINDOW_LOOK_H

#include "ipc/window_view.h"

#include <sys/types.h>

struct err;

/*
 * Copy the window of process `pid`, or of a device process that it started, to
 * *out. If `pid` is 0, use the only device process. Stores the id of the device
 * process in *device.
 *
 * Returns 0 on success, -ENOENT if there is no device process, -EINVAL if there
 * are several, -EACCES if access is denied, -EPROTO if the data are
 * inconsistent, or another negative errno.
 */
int window_look(
	pid_t pid, struct window_view *out, pid_t *device, struct err *);

#endif
