/* JSON for the use of the rows (computed tokens) of passes
 * (host/session/row_counts.h) and for the results of drafts. */
#ifndef HOST_CMD_ROWS_JSON_H
#define HOST_CMD_ROWS_JSON_H

#include <jansson.h>

struct method_stats;
struct row_counts;

/* Return an object with the number of passes, the rows of their graphs, and how
 * these rows were used: valid rows were kept, wasted rows were rejected drafts,
 * and underutilized rows were padding. The object also has the number of rows
 * after each graph is rounded up to whole tiles. Returns NULL if out of memory.
 */
json_t *rows_json(const struct row_counts *);

/* Add the numbers of tokens drafted and accepted, and ratios derived from
 * them. */
void put_drafts(json_t *o, const struct method_stats *);

#endif
