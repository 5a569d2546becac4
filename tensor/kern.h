/*
 * Kernels: the arithmetic of both processes on rows of floats. There is one
 * table for each implementation, chosen at run time by the CPU's instruction
 * sets (environment TANDEM_CPU=ref|base|avx2|avx512|vnni|amx overrides).
 *
 * The contract is batch invariance: every output row depends only on its own
 * input row and the weights, and is summed in one fixed order, whatever the
 * number of rows in the call and however callers split the work. The vector
 * kernels also give the same bits with all instruction sets: multiplication and
 * addition are fused only where a kernel's comment says fma.
 *
 * Activations are float32 in memory. Callers round them to fp16 between
 * operators, as the NPU stores them, with round_f16.
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

/* The keys and values of one layer and kv head, and the slots that a query
 * sees. */
struct kern_kv {
	const uint8_t *k, *v; /* first byte of slot 0 of this kv head */
	size_t stride;        /* bytes from one slot to the next */
	const uint32_t *slot; /* [n] slots in order of logical position */
	uint32_t n;
	bool f16; /* element type: fp16, else float32 */
};

/* Consecutive slots. */
struct kern_span {
	uint32_t slot, count;
};

/* One of several rows: its queries and its output, [heads][head_dim] each, and
 * the slots that it sees: those of its spans, then those of its own list. */
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
	 * to the nearest, ties to even. NaN counts as 0, magnitudes are clamped
	 * to 2^127; if amax is below 2^-100, codes and scale are 0. dst:
	 * kern_q8_bytes(k) bytes, 64-aligned, in a private order for matmul_q8
	 * (kern_tile.h). All implementations write the same bytes.
	 */
	void (*quantize)(void *dst, const float *x, unsigned k);

	/*
	 * matmul_tile on quantized rows, kern_q8_bytes(k) apart, for tile-q4_0
	 * and tile-q8_0. Products of codes are summed exactly in int32 over the
	 * 32 k of a group of weights. An fma adds that sum, times the weights'
	 * scale, to a float32 sum over the 256 k of a group of activations; an
	 * fma adds the latter, times the activations' scale, to the output. All
	 * in ascending order.
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
	 * are given, [n_rot/2] each. Values from n_rot on do not change.
	 */
	void (*rope)(float *x, const float *cos, const float *sin,
		unsigned n_rot, bool neox);

	/*
	 * `heads` query heads [heads][head_dim] of one row that share a head of
	 * keys and values, over the slots that the row sees: out[h][d] = sum
	 * softmax(q.k * scale) v. Reduced in the order of kv->slot, in blocks
	 * of KERN_ATTEND_BLOCK slots from the first one on; each block's
	 * maximum and sum are merged with those of the blocks before (online
	 * softmax: Dao et al., "FlashAttention", 2022). kv->n >= 1. `scratch`:
	 * kern_attend_scratch(heads, head_dim) floats.
	 */
	void (*attend)(float *out, const float *q, unsigned heads,
		const struct kern_kv *kv, unsigned head_dim, float scale,
		float *scratch);

	/*
	 * attend or, with an exp2_table, attend_table for 1 to KERN_ATTEND_ROWS
	 * rows, each of which sees at least one slot; kv's own list is not
	 * used. Each row gets the same bytes as in a call by itself. Adjacent
	 * rows whose lists in a block are equal, or one of which is a prefix of
	 * the other, share the reads and some of the work. `scratch` as for
	 * attend. Returns the number of slots whose keys and values were read;
	 * shared ones count once.
	 */
	uint64_t (*attend_rows)(const struct kern_query *, unsigned rows,
		unsigned heads, const struct kern_kv *kv, unsigned head_dim,
		float scale, const uint16_t *exp2_table, float *scratch);

	/*
	 * attend as on the NPU (npu-tts paper, algorithm 1): q, k, v,
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
	 * Returns the number of saturated values.
	 */
	size_t (*round_f16)(float *x, size_t n);

	/*
	 * `steps` rounds of matmul_q8's dot-product instruction, on registers
	 * only: the CPU's peak rate. `amx` uses the vector instruction, so that
	 * its figures can be compared with those of vnni. Returns the number of
	 * operations, two for a product and its addition. NULL in `ref`.
	 */
	uint64_t (*peak_int8)(uint64_t steps);

	/* Load `n` bytes, a multiple of 1024, without using them: the peak rate
	 * of memory. NULL in `ref`. */
	void (*peak_read)(const void *bytes, size_t n);
};

#define KERN_ATTEND_BLOCK 64
#define KERN_ATTEND_ROWS  32
#define KERN_EXP2_ENTRIES 32768

size_t kern_matmul_scratch(unsigned k);
size_t kern_tile_scratch(unsigned k);

/* Whether matmul_q8 takes weights of this type. */
bool kern_takes_q8(enum dtype);

/* Rows of activations: float32, and perhaps quantized as well. */
struct kern_rows {
	const float *x;
	size_t ldx;
	const void *q8; /* kern_q8_bytes(k) apart; NULL: not quantized */
	unsigned n;
};

/*
 * y = x * w' by the product for the weights' type: matmul_q8 on quantized
 * rows if it takes the type, else matmul_tile or matmul. `scratch`:
 * kern_multiply_scratch(k) bytes, 64-aligned.
 */
void kern_multiply(const struct kern *, float *y, size_t ldy,
	const struct kern_rows *, enum dtype wt, const void *w, unsigned n,
	unsigned k, void *scratch);
size_t kern_multiply_scratch(unsigned k);

/*
 * The arguments of rope at a position: cosines and sines of position * freq[i],
 * n of each. In double, so that the product is accurate at large positions.
 */
void kern_angles(float *cosine, float *sine, uint32_t position,
	const float *freq, unsigned n);

/* Store n values as fp16, after round_f16 in place; returns the number of
 * saturated ones. */
size_t kern_store_f16(const struct kern *, uint16_t *to, float *x, size_t n);

size_t kern_q8_bytes(unsigned k); /* a multiple of 64 */
size_t kern_attend_scratch(unsigned heads, unsigned head_dim);

/*
 * 2^x in fp16 for every fp16 x <= 0, indexed by x without the sign: 64 KiB
 * (npu-tts paper, 5.2.1). Entries for x below -inf (NaN) are 0.
 */
void kern_exp2_table(uint16_t table[KERN_EXP2_ENTRIES]);

/*
 * By name, or the best for this CPU when name is NULL; NULL when the
 * name is unknown or the CPU lacks the instruction set.
 */
const struct kern *kern_find(const char *name);

/* kern_find(getenv("TANDEM_CPU")); an unknown name is an error. */
struct err;
int kern_select(const struct kern **out, struct err *e);

/* Names of all implementations built in, NULL-terminated. */
const char *const *kern_names(void);

/* Whether this CPU has F16C, which the vector kernels of x86-64 require. */
bool kern_has_f16c(void);

#endif
