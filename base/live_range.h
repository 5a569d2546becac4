/*
 * Places temporary buffers in one memory area. Each is alive from one step of a
 * fixed sequence to another, and buffers that are not alive together may share
 * bytes. The largest is placed first, each in the smallest gap between the
 * buffers that are alive with it, or after them (greedy best fit by size, as in
 * Pisarchyk and Lee, "Efficient memory management for deep neural net
 * inference", 2020). The result is not always the minimum, which is NP-hard.
 *
 * Pure: no state, any thread.
 */
#ifndef BASE_LIVE_RANGE_H
#define BASE_LIVE_RANGE_H

#include <stddef.h>
#include <stdint.h>

#define LIVE_RANGES 32 /* at a time, at most */

struct live_range {
	uint32_t first, last; /* steps, both included */
	size_t bytes;
	size_t at; /* its offset: set by live_range_place */
};

/* Place n ranges at multiples of `align`, a power of two; returns the total
 * bytes. */
size_t live_range_place(struct live_range *, unsigned n, size_t align);

#endif
