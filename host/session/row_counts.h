/*
 * What became of the rows of passes. The graphs of a phone's NPU are static: a
 * pass computes all rows of its graph, so each of them is
 *
 *   valid          kept: a token of the text was drawn from it or, of a prompt,
 *                  lies in it
 *   wasted         real, and not kept: drafts that were rejected
 *   underutilized  padding
 *
 * (sd.npu, section 3.2, where these are shares of the NPU's cycles). The graph
 * is the one that the pass began with, the smallest that held its rows; the
 * matrix engine works on whole tiles, so that a smaller one leaves the rest of
 * a tile idle: `tile` counts rows by that measure. Plain data, any thread.
 */
#ifndef HOST_SESSION_ROW_COUNTS_H
#define HOST_SESSION_ROW_COUNTS_H

#include "base/counters.h"

#include <stdint.h>

/* clang-format off */
#define ROW_COUNTS(X)                                                         \
	X(uint64_t, passes)                                                   \
	X(uint64_t, rows)   /* real ones */                                   \
	X(uint64_t, valid)  /* of them */                                     \
	X(uint64_t, graph)  /* rows of the passes' graphs */                  \
	X(uint64_t, tile)   /* the same in whole tiles of the matrix engine */
/* clang-format on */

struct row_counts {
	ROW_COUNTS(COUNTER_MEMBER)
};

static inline void row_counts_add(
	struct row_counts *sum, const struct row_counts *more)
{
	ROW_COUNTS(COUNTER_ADD)
}

/* What *now counts more than *before, an earlier one. */
static inline void row_counts_since(
	struct row_counts *now, const struct row_counts *before)
{
	ROW_COUNTS(COUNTER_SUBTRACT)
}

static inline uint64_t row_counts_wasted(const struct row_counts *c)
{
	return c->rows - c->valid;
}

static inline uint64_t row_counts_underutilized(const struct row_counts *c)
{
	return c->graph - c->rows;
}

/* Of a pass's graphs or tiles the share that so many rows are; 0 of none. */
static inline double row_counts_share(uint64_t rows, uint64_t of)
{
	return of ? (double)rows / (double)of : 0;
}

#endif
