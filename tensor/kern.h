/*
 * Kernels: the arithmetic that both processes do on rows of floats. One
 * table per implementation, chosen at run time by what the processor has
 * (environment TANDEM_CPU=ref|base|avx2|avx512|vnni|amx overrides).
 *
 * Batch invariance is the contract: every output row is a function of its
 * own input row and the weights, computed with one fixed order of summation,
 * whatever the number of rows in the call or the way callers cut it into
 * pieces. The vector kernels also agree with one another bit for bit,
 * whatever the instruction set: an operation is contracted where its text says
 * so (fma), and nowhere else.
 *
 * Activations are float32 in memory. Rounding them to fp16 between operators
 * (as the NPU stores them) is the caller's step, round_f16.
 *
 * Nothing here allocates, locks or fails. Pointers need float alignment;
 * weights need none.
 */
#ifndef TENSOR_KERN_H
#define TENSOR_KERN_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys or values of one layer and the rows of it that one query sees. */
struct kern_kv {
	const uint8_t *k, *v; /* first byte of slot 0 of this kv head */
	size_t stride;        /* bytes from one slot to the next */
	const uint32_t *slot; /* [n] slots in order of logical position */
	uint32_t n;
	bool f16; /* element type: fp16, else float32 */
};

/* Slots side by side. */
struct kern_span {
	uint32_t slot, count;
};

/* One of several rows: its queries and its output, [heads][head_dim] each, and
 * what it sees: the slots of its spans and then those of a list of its own. */
struct kern_query {
	const float *q;
	float *out;
	const struct kern_span *span; /* [n_spans] */
	uint32_t n_spans;
	const uint32_t *own; /* [n_own] */
	uint32_t n_own;
};

struct kern {
	const char *name;

	/*
	 * y[m][j] = sum_i x[m][i] * w[j][i]; w is n rows of k values of type
	 * `wt` (k whole blocks), x is [rows][k] with leading dimension ldx,
	 * y has leading dimension ldy. `scratch`: kern_matmul_scratch(k)
	 * floats.
	 */
	void (*matmul)(float *y, size_t ldy, const float *x, size_t ldx,
		unsigned rows, enum dtype wt, const void *w, unsigned n,
		unsigned k, float *scratch);

	/*
	 * The same for weights in tiles (tensor/tile.h, any tiled type): n
	 * outputs of the strips that begin at w; k is a multiple of 32. One
	 * output is one chain of fma over k in ascending order from zero.
	 * `scratch`: kern_tile_scratch(k) bytes, 64-aligned.
	 */
	void (*matmul_tile)(float *y, size_t ldy, const float *x, size_t ldx,
		unsigned rows, enum dtype wt, const void *w, unsigned n,
		unsigned k, void *scratch);

	/*
	 * One row of k values (a multiple of 32) to int8, symmetric, one scale
	 * for each 256 values: amax / 127. Codes are x * (127 / amax) rounded
	 * to the nearest, ties to even. NaN counts as 0, what is beyond 2^127
	 * as that; where amax is below 2^-100, codes and scale are 0. dst:
	 * kern_q8_bytes(k) bytes, 64-aligned, in an order that only matmul_q8
	 * knows. All implementations write the same bytes.
	 */
	void (*quantize)(void *dst, const float *x, unsigned k);

	/*
	 * matmul_tile on such rows, kern_q8_bytes(k) apart, for tile-q4_0 and
	 * tile-q8_0: products of codes are summed exactly in int32 over the 32
	 * k of a group and enter by fma, times the weight's scale, a float32
	 * sum over the groups of 256 k; that sum, times the activations' scale,
	 * enters the output likewise. Ascending order throughout.
	 */
	void (*matmul_q8)(float *y, size_t ldy, const void *xq, unsigned rows,
		enum dtype wt, const void *w, unsigned n, unsigned k,
		void *scratch);

	/* y = x / sqrt(mean(x^2) + eps) * w, n values; y may be x. */
	void (*rmsnorm)(float *y, const float *x, const float *w, unsigned n,
		float eps);

	/*
	 * Rotate one head in place: pairs (i, i+1) when `neox` is false,
	 * (i, i + n_rot/2) when true, by the angles whose cosines and sines
	 * are given, [n_rot/2] each. Values from n_rot on are left alone.
	 */
	void (*rope)(float *x, const float *cos, const float *sin,
		unsigned n_rot, bool neox);

	/*
	 * `heads` query heads [heads][head_dim] of one row that share a head of
	 * keys and values, over the slots that the row sees: out[h][d] = sum
	 * softmax(q.k * scale) v. Reduced in the order of kv->slot, in blocks
	 * of KERN_ATTEND_BLOCK slots from the first one on, each block's
	 * maximum and sum joined to those before (Dao et al.,
	 * "FlashAttention", 2022). kv->n >= 1. `scratch`:
	 * kern_attend_scratch(heads, head_dim) floats.
	 */
	void (*attend)(float *out, const float *q, unsigned heads,
		const struct kern_kv *kv, unsigned head_dim, float scale,
		float *scratch);

	/*
	 * attend or, with an exp2_table, attend_table for 1 to KERN_ATTEND_ROWS
	 * rows, each of which sees at least one slot; kv's list is not looked
	 * at. Each row gets the bytes that it gets alone. Rows beside one
	 * another whose lists agree in a block, or one of which goes on where
	 * the other ends, share the work and what is read for it. `scratch` as
	 * attend's. Returns of how many slots keys and values were read, of
	 * those that rows share once.
	 */
	uint64_t (*attend_rows)(const struct kern_query *, unsigned rows,
		unsigned heads, const struct kern_kv *kv, unsigned head_dim,
		float scale, const uint16_t *exp2_table, float *scratch);

	/*
	 * attend as the NPU does it (npu-tts paper, algorithm 1): q, k, v,
	 * scores, weights and output in fp16, wide accumulation in each
	 * product, exp2 from `exp2_table` (kern_exp2_table), sums of weights in
	 * float32.
	 */
	void (*attend_table)(float *out, const float *q, unsigned heads,
		const struct kern_kv *kv, unsigned head_dim, float scale,
		const uint16_t *exp2_table, float *scratch);

	/* y = silu(gate) * up; y may be gate. */
	void (*swiglu)(float *y, const float *gate, const float *up, size_t n);

	void (*add)(float *y, const float *x, size_t n); /* y += x */

	/*
	 * Round to fp16 and back in place; beyond +-65504 it saturates.
	 * Returns how many values did.
	 */
	size_t (*round_f16)(float *x, size_t n);

	/*
	 * `steps` rounds of the instruction that matmul_q8 is made of, on
	 * registers alone: what the processor gives at most; of `amx` those of
	 * vectors, so that its figures and vnni's compare. Returns the
	 * operations done, two for a product and its sum. NULL in `ref`.
	 */
	uint64_t (*peak_int8)(uint64_t steps);

	/* Load `n` bytes, a multiple of 1024, and do nothing with them: what
	 * memory gives at most. NULL in `ref`. */
	void (*peak_read)(const void *bytes, size_t n);
};

#define KERN_ATTEND_BLOCK 64
#define KERN_ATTEND_ROWS  32
#define KERN_EXP2_ENTRIES 32768

size_t kern_matmul_scratch(unsigned k);
size_t kern_tile_scratch(unsigned k);

/* Whether matmul_q8 takes weights of this type. */
bool kern_takes_q8(enum dtype);

/* Rows of activations: float32, and quantized where that was done. */
struct kern_rows {
	const float *x;
	size_t ldx;
	const void *q8; /* kern_q8_bytes(k) apart; NULL: not quantized */
	unsigned n;
};

/*
 * y = x * w' by the product that suits the weights: matmul_q8 on quantized
 * rows where it takes their type, else matmul_tile or matmul. `scratch`:
 * kern_multiply_scratch(k) bytes, 64-aligned.
 */
void kern_multiply(const struct kern *, float *y, size_t ldy,
	const struct kern_rows *, enum dtype wt, const void *w, unsigned n,
	unsigned k, void *scratch);
size_t kern_multiply_scratch(unsigned k);

/*
 * What rope wants at a position: cosines and sines of position * freq[i], n of
 * each. In double, so that far positions lose nothing to the product.
 */
void kern_angles(float *cosine, float *sine, uint32_t position,
	const float *freq, unsigned n);

/* n values to a cache in fp16, by way of round_f16 in place; returns how many
 * saturated. */
size_t kern_store_f16(const struct kern *, uint16_t *to, float *x, size_t n);

size_t kern_q8_bytes(unsigned k); /* a multiple of 64 */
size_t kern_attend_scratch(unsigned heads, unsigned head_dim);

/*
 * 2^x in fp16 for every fp16 x <= 0 by its bits without the sign: 64 KiB
 * (npu-tts paper, 5.2.1). Entries for x below -inf (NaN) are 0.
 */
void kern_exp2_table(uint16_t table[KERN_EXP2_ENTRIES]);

/*
 * By name, or the best this processor has when name is NULL; NULL when the
 * name is unknown or the processor lacks it.
 */
const struct kern *kern_find(const char *name);

/* kern_find(getenv("TANDEM_CPU")); an unknown name is an error. */
struct err;
int kern_select(const struct kern **out, struct err *e);

/* Names of all implementations built in, NULL-terminated. */
const char *const *kern_names(void);

/* This processor converts fp16, which the vector kernels of x86-64 want. */
bool kern_has_f16c(void);

#endif
