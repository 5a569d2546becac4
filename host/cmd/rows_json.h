/* What became of the rows of passes (host/session/row_counts.h), as JSON. */
#ifndef HOST_CMD_ROWS_JSON_H
#define HOST_CMD_ROWS_JSON_H

#include <jansson.h>

struct row_counts;

/* Passes, rows of their graphs, and the valid, wasted and underutilized of
 * them; the rows of whole tiles. NULL without memory. */
json_t *rows_json(const struct row_counts *);

#endif
