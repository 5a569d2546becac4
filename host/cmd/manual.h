/*
 * What `tandem help` prints of the program as a whole, and manual pages in
 * roff: tandem(1), and one for each command, tandem-run(1), whose options come
 * from the tables that parse them (base/opt.h).
 */
#ifndef HOST_CMD_MANUAL_H
#define HOST_CMD_MANUAL_H

#include <stdio.h>

struct command;

/* The commands, a line each. */
void manual_help(FILE *);

/* tandem(1): what there is, exit statuses, environment. */
void manual_overview(FILE *);

void manual_page(const struct command *, FILE *);

#endif
