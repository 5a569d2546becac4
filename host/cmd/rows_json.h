/* What became of the rows of passes (host/session/row_counts.h) and of drafts,
 * as JSON. */
#ifndef HOST_CMD_ROWS_JSON_H
#define HOST_CMD_ROWS_JSON_H

#include <jansson.h>

struct method_stats;
struct row_counts;

/* Passes, rows of their graphs, and the valid, wasted and underutilized of
 * them; the rows of whole tiles. NULL without memory. */
json_t *rows_json(const struct row_counts *);

/* Members of *o: tokens drafted and accepted, and what follows from them. */
void put_drafts(json_t *o, const struct method_stats *);

#endif
