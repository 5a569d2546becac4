/*
 * The shape that is priced in place of the model that runs (--as), which every
 * report of phone times prints first; nothing without --as.
 */
#ifndef HOST_CMD_PRICED_H
#define HOST_CMD_PRICED_H

#include <jansson.h>
#include <stdio.h>

struct tandem_report;

/* Print a line "priced as ...". */
void priced_text(const struct tandem_report *, FILE *);

/* Add a member "priced_as" to an object that is still empty. */
void put_priced(json_t *, const struct tandem_report *);

#endif
