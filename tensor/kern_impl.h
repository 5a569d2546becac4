/* The implementations that kern.c chooses from. Private to tensor/. */
#ifndef TENSOR_KERN_IMPL_H
#define TENSOR_KERN_IMPL_H

#include "tensor/kern.h"

/* Scalar loops with sums in double: the reference for all other
 * implementations. */
extern const struct kern kern_ref;

/*
 * The vector implementations: kern_vec.c, kern_tile.c, kern_q8.c,
 * kern_attend.c, kern_attend_rows.c and kern_peak.c are compiled once for each
 * instruction set that the Makefile lists for the machine.
 */
#define KERN_DECLARE(isa)                                                    \
	extern const struct kern kern_vec_##isa;                             \
	void kern_matmul_tile_##isa(float *y, size_t ldy, const float *x,    \
		size_t ldx, unsigned rows, enum dtype wt, const void *w,     \
		unsigned n, unsigned k, bool w_f16, void *scratch);          \
	void kern_quantize_##isa(void *dst, const float *x, unsigned k);     \
	void kern_matmul_q8_##isa(float *y, size_t ldy, const void *xq,      \
		unsigned rows, enum dtype wt, const void *w, unsigned n,     \
		unsigned k, void *scratch);                                  \
	void kern_attend_##isa(float *out, const float *q, unsigned heads,   \
		const struct kern_kv *kv, unsigned head_dim, float scale,    \
		float *scratch);                                             \
	uint64_t kern_attend_rows_##isa(const struct kern_query *query,      \
		unsigned rows, unsigned heads, const struct kern_kv *kv,     \
		unsigned head_dim, float scale, const uint16_t *exp2_table,  \
		float *scratch);                                             \
	void kern_attend_table_##isa(float *out, const float *q,             \
		unsigned heads, const struct kern_kv *kv, unsigned head_dim, \
		float scale, const uint16_t *exp2_table, float *scratch);    \
	uint64_t kern_peak_int8_##isa(uint64_t steps);                       \
	void kern_peak_read_##isa(const void *bytes, size_t n);

KERN_DECLARE(base)
KERN_DECLARE(avx2)
KERN_DECLARE(avx512)
KERN_DECLARE(vnni)
KERN_DECLARE(dotprod)
KERN_DECLARE(i8mm)

/* The implementation `amx`: the same as `vnni`, except that matmul_q8 for many
 * rows and peak_int8 use AMX. Its code is part of the object files of `vnni`.
 */
extern const struct kern kern_vec_amx;
void kern_matmul_q8_amx(float *y, size_t ldy, const void *xq, unsigned rows,
	enum dtype wt, const void *w, unsigned n, unsigned k, void *scratch);
uint64_t kern_peak_int8_amx(uint64_t steps);

/*
 * Workspace of the vector matmul, in floats: KERN_CHUNK decoded values of each
 * of KERN_COLS weight rows (16 KiB, a third of an L1 cache), and KERN_LANES
 * partial sums for each of KERN_ROWS rows times KERN_COLS weight rows.
 */
#define KERN_LANES 16
#define KERN_COLS  4
#define KERN_ROWS  64
#define KERN_CHUNK 1024
#define KERN_VEC_SCRATCH \
	(KERN_COLS * KERN_CHUNK + KERN_ROWS * KERN_COLS * KERN_LANES)

#endif
