/*
 * Steps that kern_tile.c and kern_q8.c (the matrix products on tiles in float32
 * and in int8) share, for the instruction set of this compilation. Private to
 * these two files.
 */
#ifndef TENSOR_KERN_STRIP_H
#define TENSOR_KERN_STRIP_H

#include "tensor/kern_lanes.h"
#include "tensor/kern_tile.h"

/* Number of machine vectors that hold the 32 outputs of a strip. */
#define STRIP_VECS (TILE / VEC_LANES)

/*
 * Returns the number of rows of the next register tile, which is at most
 * `most`; `rows` rows are left. The last two register tiles are as equal as
 * possible, so that a register tile is less than half full only if there is
 * just one tile.
 */
static ALWAYS_INLINE unsigned rows_next(unsigned rows, unsigned most)
{
	if (rows >= 2 * most)
		return most;
	return rows > most ? (rows + 1) / 2 : rows;
}

#endif
