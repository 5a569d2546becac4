/* Reports the model shape of option --as. With --as, phone times are computed
 * for this shape and not for the model that runs. Every report of phone times
 * prints this shape first. Without --as these functions print nothing. */
#ifndef HOST_CMD_PRICED_H
#define HOST_CMD_PRICED_H

#include <jansson.h>
#include <stdio.h>

struct tandem_report;

/* Print the shape as a line "priced as ...". */
void priced_text(const struct tandem_report *, FILE *);

/* Add the shape as the member "priced_as". The object must still be empty,
 * because this member must come first. */
void put_priced(json_t *, const struct tandem_report *);

#endif
