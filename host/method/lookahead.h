/*
 * Which positions a pass of llada-npu computes (llada.cpp, section 3.2,
 * multi-block speculative decoding): a window of at least W = `slide` positions
 * from the first undecided one. When few masks are left in the current block,
 * the window is extended into later blocks while that costs little: the time of
 * a pass of n rows is a staircase on an NPU, so rows up to the next step are
 * free. Arithmetic alone; any thread.
 */
#ifndef HOST_METHOD_LOOKAHEAD_H
#define HOST_METHOD_LOOKAHEAD_H

#include <stdint.h>

struct window_rule {
	/* W, the least number of rows; 0: only to the end of the block */
	uint32_t slide;
	/* the window is extended when the block has at most this many masks
	 * left; 0: never */
	uint32_t late;
	/* time that the extension may add, as a share of the pass */
	double allowance;
	/* Time of a pass of n rows, in any unit; must not decrease with n. */
	uint64_t (*pass)(const void *arg, uint32_t n);
	const void *arg;
};

/* The end of the window that begins at `from`: the block's end or later, but at
 * most `most`. */
uint32_t window_end(const struct window_rule *, uint32_t from,
	uint32_t block_end, uint32_t masks, uint32_t most);

#endif
