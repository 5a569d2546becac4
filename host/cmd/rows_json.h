/* Use of the rows of passes (host/session/row_counts.h) and results of drafts,
 * as JSON. */
#ifndef HOST_CMD_ROWS_JSON_H
#define HOST_CMD_ROWS_JSON_H

#include <jansson.h>

struct method_stats;
struct row_counts;

/* Passes, rows of their graphs, of these valid, wasted and underutilized ones,
 * and rows of whole tiles. NULL: no memory. */
json_t *rows_json(const struct row_counts *);

/* Add members: tokens drafted and accepted, and ratios derived from them. */
void put_drafts(json_t *o, const struct method_stats *);

#endif
