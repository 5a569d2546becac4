/*
 * Shows the address window of a running device as text or JSON: mappings,
 * holes, and the largest buffer that can be mapped next.
 */
#ifndef HOST_CMD_INSPECT_WINDOW_H
#define HOST_CMD_INSPECT_WINDOW_H

#include "ipc/window_view.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

/* device 0: the process has ended. `huge`: mapped bytes with huge page-table
 * entries. */
void inspect_window_print(
	const struct window_view *, pid_t device, uint64_t huge, FILE *);

/* {"version": 1, "command": "inspect", "window": ...}; NULL: no memory. */
json_t *inspect_window_json(
	const struct window_view *, pid_t device, uint64_t huge);

#endif
