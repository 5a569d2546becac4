/*
 * What the rows of passes were used for. The graphs of a phone's NPU are
 * static: a pass computes all rows of its graph, so each of them is
 *
 *   valid          kept: it gave a token of the text, or is in a prompt
 *   wasted         real, but not kept: a rejected draft
 *   underutilized  padding
 *
 * (sd.npu, section 3.2, where these are shares of the NPU's cycles). The graph
 * is the one that the pass began with, the smallest that has enough rows. The
 * matrix engine works on whole tiles, so a graph smaller than a tile leaves the
 * rest of it idle: `tile` counts rows in whole tiles. Plain data, any thread.
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

/* Subtract *before, an earlier state, from *now. */
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

/* The rows' share of a pass's graph or tile rows; 0 if there are none. */
static inline double row_counts_share(uint64_t rows, uint64_t of)
{
	return of ? (double)rows / (double)of : 0;
}

#endif
