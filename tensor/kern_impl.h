/*
 * The implementations that kern.c chooses from. Private to this room.
 */
#ifndef TENSOR_KERN_IMPL_H
#define TENSOR_KERN_IMPL_H

#include "tensor/kern.h"

/* Plain scalar loops with sums in double: the oracle of the others. */
extern const struct kern kern_ref;

/* kern_vec.c, compiled once for each; the Makefile knows which exist. */
extern const struct kern kern_vec_base, kern_vec_avx2, kern_vec_avx512;

/*
 * Workspace of the vector matmul, in floats: a chunk of KERN_CHUNK columns of
 * KERN_COLS weight rows, decoded (16 KiB: a third of an L1 cache), and 16
 * partial sums for each of KERN_ROWS rows times KERN_COLS weight rows.
 */
#define KERN_LANES 16
#define KERN_COLS  4
#define KERN_ROWS  64
#define KERN_CHUNK 1024
#define KERN_VEC_SCRATCH \
	(KERN_COLS * KERN_CHUNK + KERN_ROWS * KERN_COLS * KERN_LANES)

#endif
