/*
 * Kernels: the arithmetic that the host process and the device process do on
 * rows of floats. Each implementation is a table of functions, chosen at run
 * time by the CPU's instruction sets. The environment variable
 * TANDEM_CPU=ref|base|avx2|avx512|vnni|amx (on Arm: ref|base|dotprod|i8mm)
 * overrides the choice.
 *
 * All kernels are batch invariant: an output row depends only on its own input
 * row and the weights, and the sums of a row are computed in a fixed order. The
 * number of rows in a call and the division of the work into calls do not
 * change the result. The vector kernels also give the same bits with all
 * instruction sets: a multiplication and an addition are fused only where the
 * kernel's comment says fma.
 *
 * Activations are float32 in memory. Between operators, callers round them to
 * fp16 with round_f16, because the NPU stores them as fp16.
 *
 * No kernel allocates, locks or fails. Pointers need the alignment of a float;
 * weights need none.
 */
#ifndef TENSOR_KERN_H
#define TENSOR_KERN_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One KV head of one layer: its keys and values, and the slots (entries of the
 * KV cache) to which a query attends. */
struct kern_kv {
	/* addresses of the key and of the value of this KV head in slot 0 */
	const uint8_t *k, *v;
	/* bytes from one slot of the KV cache to the next */
	size_t stride;
	/* [n] the slots to which the query attends, in the order of the tokens
	 * in the text */
	const uint32_t *slot;
	uint32_t n;
	bool f16; /* true: keys and values are fp16; false: float32 */
};

/* `count` consecutive slots of the KV cache, beginning with `slot`. */
struct kern_span {
	uint32_t slot, count;
};

/*
 * One row of attend_rows: its queries and its output, [heads][head_dim] each,
 * and the slots to which it attends: first the slots of its spans, then the
 * slots in its list `own`.
 */
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

	/* y[m][j] = sum_i x[m][i] * w[j][i]. w is n rows of k values of type
	 * `wt`; k is a multiple of the type's block. x is [rows][k] with
	 * leading dimension ldx; y is [rows][n] with leading dimension ldy. If
	 * `w_f16` is set, each weight is first rounded to fp16; a weight beyond
	 * the range of fp16 becomes infinite. `scratch` is
	 * kern_matmul_scratch(k) floats. */
	void (*matmul)(float *y, size_t ldy, const float *x, size_t ldx,
		unsigned rows, enum dtype wt, const void *w, unsigned n,
		unsigned k, bool w_f16, float *scratch);

	/* Like matmul, for weights in tiles (any type of tensor/tile.h). w
	 * points to the first strip (the weights of 32 outputs) of the weights
	 * of n outputs, and k is a multiple of 32. Each output is one chain of
	 * fma over the k inputs in ascending order, starting from zero.
	 * `scratch` is kern_tile_scratch(k) bytes, aligned to 64. */
	void (*matmul_tile)(float *y, size_t ldy, const float *x, size_t ldx,
		unsigned rows, enum dtype wt, const void *w, unsigned n,
		unsigned k, bool w_f16, void *scratch);

	/* Quantize one row of k values, a multiple of 32, to int8,
	 * symmetrically, with one scale for each 256 values: amax / 127, where
	 * amax is the largest magnitude of the 256 values. Codes are x * (127 /
	 * amax) rounded to the nearest, ties to even. NaN counts as 0, and
	 * magnitudes are clamped to 2^127. If amax is below 2^-100, codes and
	 * scale are 0. dst is kern_q8_bytes(k) bytes, aligned to 64; the format
	 * is private to matmul_q8 (kern_tile.h). All implementations write the
	 * same bytes. */
	void (*quantize)(void *dst, const float *x, unsigned k);

	/* Like matmul_tile, for rows that were quantized by `quantize`,
	 * kern_q8_bytes(k) apart, and for weights of type tile-q4_0 or
	 * tile-q8_0. Products of codes are summed exactly in int32 over the 32
	 * inputs of a group of weights. An fma adds this sum, times the group's
	 * scale, to a float32 sum over the 256 inputs whose activations share a
	 * scale. A second fma adds the float32 sum, times the scale of the
	 * activations, to the output. All sums are in ascending order of the
	 * inputs. */
	void (*matmul_q8)(float *y, size_t ldy, const void *xq, unsigned rows,
		enum dtype wt, const void *w, unsigned n, unsigned k,
		void *scratch);

	/* y = x / sqrt(mean(x^2) + eps) * w, for n values. y may be x. */
	void (*rmsnorm)(float *y, const float *x, const float *w, unsigned n,
		float eps);

	/* Rotate the values of one head in place, in pairs (2i, 2i + 1) if
	 * `neox` is false, or in pairs (i, i + n_rot/2) if `neox` is true. cos
	 * and sin are the cosines and sines of the angles, [n_rot/2] each.
	 * Values from index n_rot on do not change. */
	void (*rope)(float *x, const float *cos, const float *sin,
		unsigned n_rot, bool neox);

	/* Attention of one row: its `heads` query heads, [heads][head_dim], all
	 * use the same head of keys and values, and attend to the row's slots:
	 * out[h][d] = sum softmax(q.k * scale) v. The slots are
	 * processed in the order of kv->slot, in blocks of KERN_ATTEND_BLOCK;
	 * each block's maximum and sum are merged with the maximum and sum of
	 * the blocks before it (online softmax: Dao et al., "FlashAttention",
	 * 2022). kv->n is at least 1. `scratch` is kern_attend_scratch(heads,
	 * head_dim) floats. */
	void (*attend)(float *out, const float *q, unsigned heads,
		const struct kern_kv *kv, unsigned head_dim, float scale,
		float *scratch);

	/* The same result as attend (or, if exp2_table is not NULL,
	 * attend_table) for each of 1 to KERN_ATTEND_ROWS rows, each of which
	 * attends to at least one slot. kv->slot and kv->n are not used; each
	 * row has its own slots (struct kern_query). The result of a row has
	 * the same bytes as if the row were computed alone. Within a block of
	 * slots, adjacent rows share the reads and some of the work if their
	 * slots are equal or one row's slots are a prefix of the other's.
	 * `scratch` is as for attend. Returns the number of slots whose keys
	 * and values were read; a slot that was read once for several rows
	 * counts once. */
	uint64_t (*attend_rows)(const struct kern_query *, unsigned rows,
		unsigned heads, const struct kern_kv *kv, unsigned head_dim,
		float scale, const uint16_t *exp2_table, float *scratch);

	/* Like attend, with the NPU's arithmetic (npu-tts paper, algorithm 1;
	 * the paper is named in tensor/soc/price.h): q, k, v, scores, softmax
	 * weights and output are fp16, sums of products are wider than fp16,
	 * exp2 is looked up in `exp2_table` (kern_exp2_table), and sums of
	 * softmax weights are float32. */
	void (*attend_table)(float *out, const float *q, unsigned heads,
		const struct kern_kv *kv, unsigned head_dim, float scale,
		const uint16_t *exp2_table, float *scratch);

	/* y = silu(gate) * up. y may be gate. */
	void (*swiglu)(float *y, const float *gate, const float *up, size_t n);

	void (*add)(float *y, const float *x, size_t n); /* y += x */

	/* y += x * scale, by fma */
	void (*add_scaled)(float *y, const float *x, float scale, size_t n);

	/* Round to fp16 and back in place. Values beyond +-65504 saturate.
	 * Returns the number of saturated values. */
	size_t (*round_f16)(float *x, size_t n);

	/* Like round_f16, and store the n values as fp16 in `to`. */
	size_t (*store_f16)(uint16_t *to, float *x, size_t n);

	/* Execute the dot-product instructions of matmul_q8 on registers only,
	 * in `steps` loop iterations, to measure the CPU's peak rate. Returns
	 * the number of operations; a product and its addition count as two.
	 * NULL in the implementation `ref`. */
	uint64_t (*peak_int8)(uint64_t steps);

	/* Load `n` bytes, a multiple of 1024, and ignore them, to measure the
	 * peak rate of memory. NULL in the implementation `ref`. */
	void (*peak_read)(const void *bytes, size_t n);
};

#define KERN_ATTEND_BLOCK 64
#define KERN_ATTEND_ROWS  32
#define KERN_EXP2_ENTRIES 32768

size_t kern_matmul_scratch(unsigned k);
size_t kern_tile_scratch(unsigned k);

/* Whether matmul_q8 accepts weights of this type. */
bool kern_takes_q8(enum dtype);

/* Rows of activations: in float32 and, if q8 is not NULL, also quantized. */
struct kern_rows {
	const float *x;
	size_t ldx;
	/* the same rows quantized, kern_q8_bytes(k) apart, or NULL */
	const void *q8;
	unsigned n;
	/* argument of matmul and matmul_tile: round weights to fp16 */
	bool w_f16;
};

/*
 * y = x * w' (w' is w transposed) by the kernel that suits the weights' type:
 * matmul_q8 if the rows are quantized and matmul_q8 accepts the type, else
 * matmul_tile for a tiled type, else matmul. `scratch` is
 * kern_multiply_scratch(k) bytes, aligned to 64.
 */
void kern_multiply(const struct kern *, float *y, size_t ldy,
	const struct kern_rows *, enum dtype wt, const void *w, unsigned n,
	unsigned k, void *scratch);
size_t kern_multiply_scratch(unsigned k);

/*
 * How a matrix is divided among threads. A unit is a row or a strip of weights.
 * Each thread has an equal share of adjacent units, so that its prefetcher
 * seldom fetches outputs that another thread writes. A share is divided into
 * parts that become smaller towards its end: large parts are read faster, and
 * with small last parts all threads end at about the same time, even if their
 * speeds differ.
 */
struct kern_parts {
	uint32_t units, threads, share;
	/* A share has `whole` parts of `most` units, then `halvings` parts of
	 * half of the units that are left, then one part of all that are left.
	 */
	uint32_t most, whole, halvings;
};

/* Divide a matrix of `units` >= 1 units of `unit_bytes` bytes each. At most
 * `most` units fit the memory of a worker; a part has at least one unit even if
 * `most` is 0. */
struct kern_parts kern_parts(
	size_t units, size_t unit_bytes, size_t most, unsigned threads);

/* The number of parts in all shares. Threads should compute the parts in
 * ascending order, so that with equal speeds each thread computes its share. */
uint32_t kern_parts_count(const struct kern_parts *);

/* Part i: its first unit and its number of units, which can be 0. */
struct kern_part {
	uint32_t first, n;
} kern_part(const struct kern_parts *, uint32_t i);

/*
 * Compute the arguments cos and sin of rope for a position: the cosines and
 * sines of the n angles position * freq[i]. Products are computed in double, so
 * that they are accurate at large positions.
 */
void kern_angles(float *cosine, float *sine, uint32_t position,
	const float *freq, unsigned n);

/* Number of bytes of a quantized row of k values. The number of bytes is a
 * multiple of 64. */
size_t kern_q8_bytes(unsigned k);

/* While a thread reads quantized rows, its CPU also fetches memory that follows
 * the last row. If other threads write there, both are slower: a product of 16
 * rows took up to 1.6 times as long. Therefore leave this number of bytes
 * between quantized rows and memory that is written at the same time. */
#define KERN_Q8_GAP 65536

size_t kern_attend_scratch(unsigned heads, unsigned head_dim);

/*
 * Fill a table (64 KiB) that has 2^x in fp16 for every fp16 x <= 0. The index
 * of an entry is the bits of x without the sign bit (npu-tts paper, section
 * 5.2.1). The entries after the entry of -infinity belong to NaNs and are 0.
 */
void kern_exp2_table(uint16_t table[KERN_EXP2_ENTRIES]);

/*
 * Find an implementation by its name, or the best implementation for this CPU
 * if the name is NULL. Returns NULL if the name is unknown or the CPU lacks the
 * instruction set.
 */
const struct kern *kern_find(const char *name);

/* Find the implementation that TANDEM_CPU names, or the best implementation for
 * this CPU if the variable is not set. Returns 0, or a negative errno if the
 * name is unknown or this CPU lacks the instruction set. */
struct err;
int kern_select(const struct kern **out, struct err *e);

/* Names of all implementations that this program contains, NULL-terminated. */
const char *const *kern_names(void);

/* Whether this CPU has F16C, which the vector kernels of x86-64 require. */
bool kern_has_f16c(void);

#endif
