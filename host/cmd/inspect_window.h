/*
 * The address window of a running device, drawn for people and told to
 * programs: what is mapped where, the holes, and what the next buffer could
 * have.
 */
#ifndef HOST_CMD_INSPECT_WINDOW_H
#define HOST_CMD_INSPECT_WINDOW_H

#include "ipc/window_view.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

/* device 0: it is gone. `huge`: of what it has mapped, bytes by huge page-table
 * entries. */
void inspect_window_print(
	const struct window_view *, pid_t device, uint64_t huge, FILE *);

/* {"version": 1, "command": "inspect", "window": ...}; NULL without memory. */
json_t *inspect_window_json(
	const struct window_view *, pid_t device, uint64_t huge);

#endif
