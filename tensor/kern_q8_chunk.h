/*
 * What the micro-kernels of kern_q8.c work on: 256 k of a strip of weights, and
 * the rows of activations from there on; and what of both is fetched meanwhile.
 *
 * Private to kern_q8.c.
 */
#ifndef TENSOR_KERN_Q8_CHUNK_H
#define TENSOR_KERN_Q8_CHUNK_H

#include "tensor/kern_q8.h"

/* 256 k of a strip, or what is left of it. */
struct chunk {
	const uint8_t *w; /* the first tile, as it is stored */
	unsigned tiles;
	const struct ready *ready; /* its codes in order, in the workspace */
};

/* Rows of activations from the chunk's k on, and a strip's outputs. */
struct block {
	const uint8_t *codes, *start, *scale;
	size_t row_bytes;
	float *y;
	size_t ldy;
	bool first; /* nothing is in the outputs yet */
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
 * What follows in memory the work at hand: the next chunk of weights, and the
 * next rows. It is fetched piece by piece beside the work, because no
 * processor waits for many pieces at a time.
 */
struct ahead {
	const uint8_t *weights;
	unsigned lines; /* pieces of weights, with each step */
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

/* So many that a chunk of this size is fetched in so many steps. */
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
