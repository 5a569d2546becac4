/*
 * Steps that the two products on tiles share, for the instruction set that
 * the compiler was told to use. Private to kern_tile.c and kern_q8.c.
 */
#ifndef TENSOR_KERN_STRIP_H
#define TENSOR_KERN_STRIP_H

#include "tensor/kern_lanes.h"
#include "tensor/kern_tile.h"

/* Machine vectors of a strip's outputs. */
#define STRIP_VECS (TILE / VEC_LANES)

/*
 * How many of `rows` to take in the next register tile of at most `most`: all
 * it holds, but the last two tiles are as equal as can be. So a tile is short
 * of more than half only when there is but one.
 */
static ALWAYS_INLINE unsigned rows_next(unsigned rows, unsigned most)
{
	if (rows >= 2 * most)
		return most;
	return rows > most ? (rows + 1) / 2 : rows;
}

#endif
