/*
 * Which positions a pass of the method llada-npu computes (llada.cpp, section
 * 3.2, multi-block speculative decoding). They form a window of W = `slide`
 * positions or more, starting at the first undecided position. When few masks
 * are left in the current block, the window is extended into later blocks while
 * that costs little: an NPU computes all rows of a graph, so rows up to the
 * size of the graph are free. Pure functions, which any thread may call.
 */
#ifndef HOST_METHOD_LOOKAHEAD_H
#define HOST_METHOD_LOOKAHEAD_H

#include <stdint.h>

struct window_rule {
	/* minimum number of rows (W); 0 means up to the end of the block */
	uint32_t slide;
	/* the window is extended when the block has this many masks left or
	 * fewer; 0 means never */
	uint32_t late;
	/* cost that the extension may add, as a share of the pass's cost */
	double allowance;
	/* Cost of a pass of n rows, in any unit; must not decrease with n. */
	uint64_t (*pass)(const void *arg, uint32_t n);
	const void *arg;
};

/*
 * The end of the window that begins at `from`. The block ends at `block_end`
 * and has `masks` masks left. The result does not exceed `most`, and is not
 * before the end of the block unless `most` is.
 */
uint32_t window_end(const struct window_rule *, uint32_t from,
	uint32_t block_end, uint32_t masks, uint32_t most);

#endif
