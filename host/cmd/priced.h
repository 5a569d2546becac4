/*
 * What is priced in place of what runs (--as), said first by every report of a
 * phone's time: nothing where that is the same.
 */
#ifndef HOST_CMD_PRICED_H
#define HOST_CMD_PRICED_H

#include <jansson.h>
#include <stdio.h>

struct tandem_report;

/* A line, "priced as ...". */
void priced_text(const struct tandem_report *, FILE *);

/* A member "priced_as" of an object that is empty so far. */
void put_priced(json_t *, const struct tandem_report *);

#endif
