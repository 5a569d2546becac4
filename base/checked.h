/*
 * Checked arithmetic: sizes from a file or a peer are multiplied and added only
 * with these functions. Each returns true when the exact result does not fit,
 * and then does not change *out, so that a caller writes
 * `if (size_mul(&n, a, b)) return -EOVERFLOW;`.
 */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool size_add(size_t *out, size_t a, size_t b)
{
	size_t r;

	if (__builtin_add_overflow(a, b, &r))
		return true;
	*out = r;
	return false;
}

static inline bool size_mul(size_t *out, size_t a, size_t b)
{
	size_t r;

	if (__builtin_mul_overflow(a, b, &r))
		return true;
	*out = r;
	return false;
}

/* [off, off + len) lies within [0, total). */
static inline bool range_within(uint64_t off, uint64_t len, uint64_t total)
{
	return off <= total && len <= total - off;
}

/* `align` is a power of two; the caller keeps `v` below 2^64 - align. */
static inline uint64_t align_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

static inline bool is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
