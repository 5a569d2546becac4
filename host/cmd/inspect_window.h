/* Shows the address window of a running device process (the addresses at which
 * the emulated NPU can map buffers) as text or JSON: mappings, holes, and the
 * size of the largest buffer that can still be mapped. */
#ifndef HOST_CMD_INSPECT_WINDOW_H
#define HOST_CMD_INSPECT_WINDOW_H

#include "ipc/window_view.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

/* Print a window. `device` is the process id of the device process, or 0 if
 * that process has ended. `huge` is the number of mapped bytes with huge
 * page-table entries. */
void inspect_window_print(
	const struct window_view *, pid_t device, uint64_t huge, FILE *);

/* Return {"version": 1, "command": "inspect", "window": ...}, or NULL if out of
 * memory. */
json_t *inspect_window_json(
	const struct window_view *, pid_t device, uint64_t huge);

#endif
