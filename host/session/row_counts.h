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

#include <stdint.h>

struct row_counts {
	uint64_t passes;
	uint64_t rows;  /* real ones */
	uint64_t valid; /* of them */
	uint64_t graph; /* rows of the passes' graphs */
	uint64_t tile;  /* the same in whole tiles of the matrix engine */
};

static inline void row_counts_add(
	struct row_counts *sum, const struct row_counts *more)
{
	sum->passes += more->passes;
	sum->rows += more->rows;
	sum->valid += more->valid;
	sum->graph += more->graph;
	sum->tile += more->tile;
}

/* What *c counts more than *before, an earlier one. */
static inline void row_counts_since(
	struct row_counts *c, const struct row_counts *before)
{
	c->passes -= before->passes;
	c->rows -= before->rows;
	c->valid -= before->valid;
	c->graph -= before->graph;
	c->tile -= before->tile;
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
