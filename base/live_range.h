/*
 * Where short-lived things lie in one piece of memory: each is alive from one
 * step of a fixed sequence to another, and those that are not alive together
 * may share bytes. The largest is placed first, each in the smallest gap that
 * those alive with it leave, or behind them (greedy best fit by size, as in
 * Pisarchyk and Lee, "Efficient memory management for deep neural net
 * inference", 2020). The least memory is not promised: that is hard to find.
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
	size_t at; /* where it lies: told */
};

/* Places n of them on multiples of `align`, a power of two; returns the bytes
 * that all of them take. */
size_t live_range_place(struct live_range *, unsigned n, size_t align);

#endif
