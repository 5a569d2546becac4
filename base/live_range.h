/*
 * Placement of temporary buffers in one memory area. Each buffer is alive from
 * one step of a fixed sequence to a later step, and buffers that are not alive
 * at the same step may share bytes. The buffers are placed one after another,
 * the largest first. Each buffer gets the smallest gap that is large enough
 * between those placed buffers that are alive at one of its steps. If no gap is
 * large enough, the buffer gets the bytes after all these placed buffers. This
 * algorithm is greedy best fit by size (Pisarchyk and Lee, "Efficient memory
 * management for deep neural net inference", 2020). The total is not always the
 * minimum, because finding the minimum is NP-hard.
 *
 * The function has no state; any thread may call the function.
 */
#ifndef BASE_LIVE_RANGE_H
#define BASE_LIVE_RANGE_H

#include <stddef.h>
#include <stdint.h>

#define LIVE_RANGES 32 /* maximum number of ranges in one call */

struct live_range {
	/* the first and the last step at which the buffer is alive */
	uint32_t first, last;
	size_t bytes;
	/* offset of the buffer in the area, set by live_range_place */
	size_t at;
};

/* Set the offsets of n ranges to multiples of `align`, a power of two. Returns
 * the size of the area in bytes. */
size_t live_range_place(struct live_range *, unsigned n, size_t align);

#endif
