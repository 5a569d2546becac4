/*
 * What the parts of `tandem history` share: cmd_history.c (stats, prune),
 * cmd_history_list.c, cmd_history_import.c.
 */
#ifndef HOST_CMD_CMD_HISTORY_H
#define HOST_CMD_CMD_HISTORY_H

#include <stdint.h>

struct command;
struct err;
struct history;

/* A part of the command whose one operand is the file: EXIT_*. */
int history_run(const struct command *, int argc, char **argv,
	int (*part)(const char *file, struct err *));

/* "2026-11-22 09:31", in local time. */
#define HISTORY_WHEN 32
void history_when(int64_t at, char out[HISTORY_WHEN]);

/* Warn of what in the file is no record. */
void history_warn(const struct history *, const char *file);

#endif
