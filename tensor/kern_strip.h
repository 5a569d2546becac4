/*
 * Steps that the two products on tiles share, for the instruction set that
 * this compilation targets. Private to kern_tile.c and kern_q8.c.
 */
#ifndef TENSOR_KERN_STRIP_H
#define TENSOR_KERN_STRIP_H

#include "tensor/kern_lanes.h"
#include "tensor/kern_tile.h"

/* Machine vectors of a strip's outputs. */
#define STRIP_VECS (TILE / VEC_LANES)

/*
 * The number of rows of the next register tile, out of `rows`, at most `most`.
 * The last two tiles are as equal as possible, so only a single tile can be
 * less than half full.
 */
static ALWAYS_INLINE unsigned rows_next(unsigned rows, unsigned most)
{
	if (rows >= 2 * most)
		return most;
	return rows > most ? (rows + 1) / 2 : rows;
}

#endif
