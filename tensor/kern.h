/*
 * Kernels: the arithmetic that both processes do on rows of floats. One
 * table per implementation, chosen at run time by what the processor has
 * (environment TANDEM_CPU=ref|base|avx2|avx512 overrides).
 *
 * Batch invariance is the contract: every output row is a function of its
 * own input row and the weights, computed with one fixed order of summation,
 * whatever the number of rows in the call or the way callers cut it into
 * pieces. The vector kernels also agree with one another bit for bit (16
 * partial sums, no contraction), whatever the instruction set.
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
	 * One query head over its visible rows: out[d] = sum softmax(q.k *
	 * scale) v, reduced in the order of kv->slot. `scratch`: kv->n
	 * floats. kv->n >= 1.
	 */
	void (*attend)(float *out, const float *q, const struct kern_kv *kv,
		unsigned head_dim, float scale, float *scratch);

	/* y = silu(gate) * up; y may be gate. */
	void (*swiglu)(float *y, const float *gate, const float *up, size_t n);

	void (*add)(float *y, const float *x, size_t n); /* y += x */

	/*
	 * Round to fp16 and back in place; beyond +-65504 it saturates.
	 * Returns how many values did.
	 */
	size_t (*round_f16)(float *x, size_t n);
};

size_t kern_matmul_scratch(unsigned k);

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

#endif
