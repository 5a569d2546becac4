/*
 * Counts of the rows of passes by their use. The graphs of a phone's NPU have a
 * fixed number of rows: a pass always computes all rows of its graph. Each of
 * these rows is
 *
 *   valid          computed for a token of the output or of a prompt
 *   wasted         computed for a draft token that was rejected
 *   underutilized  padding of the graph: computed without a token
 *
 * (terms of the sd.npu paper, section 3.2, which measures each kind as a share
 * of the NPU's cycles). The graph is the one with which the pass began: the
 * smallest graph that has enough rows. The matrix engine works on whole tiles.
 * If a graph is smaller than a tile, the rest of the tile is idle; `tile`
 * counts rows rounded up to whole tiles. The counters are plain data, which any
 * thread may use.
 */
#ifndef HOST_SESSION_ROW_COUNTS_H
#define HOST_SESSION_ROW_COUNTS_H

#include "base/counters.h"

#include <stdint.h>

/* clang-format off */
#define ROW_COUNTS(X)                                                         \
	X(uint64_t, passes)                                                   \
	X(uint64_t, rows)   /* rows without padding */                        \
	X(uint64_t, valid)  /* rows computed for output and prompts */        \
	/* rows of the passes' graphs, including padding */                   \
	X(uint64_t, graph)                                                    \
	/* rows of the passes' graphs, each graph rounded up to whole tiles */\
	X(uint64_t, tile)
/* clang-format on */

struct row_counts {
	ROW_COUNTS(COUNTER_MEMBER)
};

static inline void row_counts_add(
	struct row_counts *sum, const struct row_counts *more)
{
	ROW_COUNTS(COUNTER_ADD)
}

/* Subtract *before from *now; *before is an earlier state of the same
 * counters. */
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

/* `rows` divided by `of`, which counts rows of graphs or tiles; 0 if `of` is
 * 0. */
static inline double row_counts_share(uint64_t rows, uint64_t of)
{
	return of ? (double)rows / (double)of : 0;
}

#endif
