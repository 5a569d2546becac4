/*
 * Parts that several reports contain: the model shape of option --as, the use
 * of the rows (computed tokens) of passes (host/session/row_counts.h), and the
 * results of drafts.
 *
 * With --as, phone times are computed for a model shape and not for the model
 * that runs. Every report of phone times prints this shape first.
 */
#ifndef HOST_CMD_REPORT_PARTS_H
#define HOST_CMD_REPORT_PARTS_H

#include <jansson.h>
#include <stdio.h>

struct method_stats;
struct row_counts;
struct tandem_report;

/* Print the shape as a line "priced as ...". Without --as, print nothing. */
void priced_text(const struct tandem_report *, FILE *);

/* Add the shape as the member "priced_as"; without --as, add nothing. The
 * object must still be empty, because this member must come first. */
void put_priced(json_t *, const struct tandem_report *);

/* Return an object with the number of passes, the number of rows of the graphs
 * that they ran, and how many of these rows were valid (kept), wasted (rejected
 * drafts) and underutilized (padding). The object also has the number of rows
 * if each graph's rows are rounded up to whole tiles. Returns NULL if out of
 * memory. */
json_t *rows_json(const struct row_counts *);

/* Add the numbers of tokens drafted and accepted, and ratios derived from
 * them. */
void put_drafts(json_t *o, const struct method_stats *);

#endif
