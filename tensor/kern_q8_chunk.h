/*
 * The operands of the micro-kernels of kern_q8.c: a chunk, which is 256 inputs
 * (indices k) of a strip of 32 outputs; a block of rows of activations; and the
 * prefetching of the next chunk and the next rows.
 *
 * Private to kern_q8.c.
 */
#ifndef TENSOR_KERN_Q8_CHUNK_H
#define TENSOR_KERN_Q8_CHUNK_H

#include "tensor/kern_q8.h"

/* The weights of a strip for 256 indices k, or fewer at the end of the
 * strip. */
struct chunk {
	const uint8_t *w; /* the first tile of the chunk, as stored */
	unsigned tiles;
	/* how far ahead weights are prefetched, in bytes, if codes are decoded
	 * in registers */
	size_t ahead;
	/* decoded codes and scales of the chunk, in the workspace; not used if
	 * codes are decoded in registers */
	const struct ready *ready;
};

/* The rows to multiply next. codes, start and scale point to the codes,
 * corrections and scale of the first row for the inputs of the chunk; y points
 * to the outputs of this row in the strip. */
struct block {
	const uint8_t *codes, *start, *scale;
	size_t row_bytes;
	float *y;
	size_t ldy;
	/* true for the first chunk of a strip: the sums of this chunk replace
	 * the outputs, and the sums of later chunks are added to the outputs */
	bool first;
};

static ALWAYS_INLINE vec scale_of(const struct block *b)
{
	float scale;

	memcpy(&scale, b->scale, sizeof(scale));
	return all(scale);
}

static ALWAYS_INLINE void enter(float *y, vec part, vec scale, const bool first)
{
	store(y, fma_vec(part, scale, first ? all(0) : load(y)));
}

static ALWAYS_INLINE void step_rows(struct block *b, unsigned rows)
{
	b->codes += rows * b->row_bytes;
	b->start += rows * b->row_bytes;
	b->scale += rows * b->row_bytes;
	b->y += rows * b->ldy;
}

/*
 * The memory to prefetch: the next chunk of weights and the next rows. Each
 * step prefetches a few cache lines, because a CPU can have only a limited
 * number of cache misses in flight.
 */
struct ahead {
	const uint8_t *weights;
	unsigned lines; /* cache lines of weights to prefetch in each step */
	unsigned rows;
	struct block next;
};

static ALWAYS_INLINE void rows_after(
	struct ahead *a, struct block b, unsigned rows, unsigned after)
{
	step_rows(&b, rows);
	a->next = b;
	a->rows = after;
}

/* The number of cache lines to prefetch in each of `steps` steps, so that all
 * steps together fetch `bytes` bytes. */
static ALWAYS_INLINE unsigned lines_a_step(size_t bytes, unsigned steps)
{
	return (unsigned)(bytes / 64 + steps - 1) / steps;
}

static ALWAYS_INLINE void fetch_step(struct ahead *a)
{
	for (unsigned i = 0; i < a->lines; i++, a->weights += 64)
		__builtin_prefetch(a->weights);
	if (!a->rows)
		return;
#pragma GCC unroll 4
	for (int i = 0; i < Q8_GROUP; i += 64)
		__builtin_prefetch(a->next.codes + i);
	__builtin_prefetch(a->next.start);
	__builtin_prefetch(a->next.scale);
	__builtin_prefetch(a->next.y);
	__builtin_prefetch(a->next.y + TILE / 2);
	step_rows(&a->next, 1);
	a->rows--;
}

#endif
