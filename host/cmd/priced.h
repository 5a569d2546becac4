/*
 * Reports the model shape of option --as, for which phone times are computed
 * instead of for the running model. Every report of phone times prints this
 * shape first. Without --as these functions print nothing.
 */
#ifndef HOST_CMD_PRICED_H
#define HOST_CMD_PRICED_H

#include <jansson.h>
#include <stdio.h>

struct tandem_report;

/* Print the line "priced as ...". */
void priced_text(const struct tandem_report *, FILE *);

/* Add the member "priced_as" to an object that must still be empty. */
void put_priced(json_t *, const struct tandem_report *);

#endif
