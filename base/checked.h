/*
 * Checked arithmetic. Sizes that come from a file or from a peer process are
 * multiplied and added only with the functions of this header. If the exact
 * result does not fit, size_add and size_mul return true and leave *out
 * unchanged. A caller writes `if (size_mul(&n, a, b)) return -EOVERFLOW;`.
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

/* Whether [off, off + len) lies within [0, total). The test does not compute
 * off + len, so it cannot overflow. */
static inline bool range_within(uint64_t off, uint64_t len, uint64_t total)
{
	return off <= total && len <= total - off;
}

/* Round `v` up to a multiple of `align`, a power of two. The caller ensures
 * that `v` is at most 2^64 - align. */
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
