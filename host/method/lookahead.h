/*
 * Which positions a pass of llada-npu computes (llada.cpp, section 3.2): from
 * where something is still to be decided, some way into later blocks. What an
 * NPU takes for n rows is a staircase, so rows up to the next step are free.
 * Arithmetic alone; any thread.
 */
#ifndef HOST_METHOD_LOOKAHEAD_H
#define HOST_METHOD_LOOKAHEAD_H

#include <stdint.h>

struct window_rule {
	uint32_t slide;   /* rows that the window has at least; 0: only to the
			   * end of the block */
	uint32_t late;    /* masks left in the block at which it looks ahead;
			   * 0: never */
	double allowance; /* for that: share of a pass's time */
	/* Time of a pass of n rows, in any unit; not decreasing. */
	uint64_t (*pass)(const void *arg, uint32_t n);
	const void *arg;
};

/* Where the window ends that begins at `from`: at the block's end or behind it,
 * at `most` at most. */
uint32_t window_end(const struct window_rule *, uint32_t from,
	uint32_t block_end, uint32_t masks, uint32_t most);

#endif
