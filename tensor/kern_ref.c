/*
 * Kernels as one would write them on a blackboard: what the vector kernels
 * are checked against. Sums are taken in double and in plain order; nothing
 * is shared with kern_vec.c but the decoders of stored formats, which have
 * their own tests.
 */
#include "tensor/kern_impl.h"

#include "tensor/f16.h"

#include <math.h>

static void ref_matmul(float *y, size_t ldy, const float *x, size_t ldx,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	float *scratch)
{
	const struct dtype_info *info = dtype_info(wt);
	const uint8_t *row = w;

	for (unsigned j = 0; j < n; j++, row += dtype_row_bytes(wt, k)) {
		info->to_f32(scratch, row, k);
		for (unsigned m = 0; m < rows; m++) {
			double sum = 0;

			for (unsigned i = 0; i < k; i++)
				sum += (double)x[m * ldx + i] * scratch[i];
			y[m * ldy + j] = (float)sum;
		}
	}
}

static void ref_rmsnorm(
	float *y, const float *x, const float *w, unsigned n, float eps)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	const double scale = 1 / sqrt(sum / n + eps);

	for (unsigned i = 0; i < n; i++)
		y[i] = (float)(x[i] * scale * w[i]);
}

static void ref_rope(float *x, const float *cosine, const float *sine,
	unsigned n_rot, bool neox)
{
	for (unsigned i = 0; i < n_rot / 2; i++) {
		const unsigned a = neox ? i : 2 * i;
		const unsigned b = neox ? i + n_rot / 2 : 2 * i + 1;
		const double c = cosine[i], s = sine[i];
		const double xa = x[a], xb = x[b];

		x[a] = (float)(xa * c - xb * s);
		x[b] = (float)(xa * s + xb * c);
	}
}

static double kv_value(
	const struct kern_kv *kv, const uint8_t *base, uint32_t i, unsigned d)
{
	const uint8_t *p = base + kv->slot[i] * kv->stride;
	uint16_t h;
	float f;

	if (kv->f16) {
		memcpy(&h, p + 2 * d, sizeof(h));
		return f16_to_f32(h);
	}
	memcpy(&f, p + 4 * d, sizeof(f));
	return f;
}

static void ref_attend(float *out, const float *q, const struct kern_kv *kv,
	unsigned head_dim, float scale, float *scratch)
{
	double most = -INFINITY, sum = 0;

	for (uint32_t i = 0; i < kv->n; i++) {
		double s = 0;

		for (unsigned d = 0; d < head_dim; d++)
			s += q[d] * kv_value(kv, kv->k, i, d);
		scratch[i] = (float)(s * scale);
		most = fmax(most, scratch[i]);
	}
	for (uint32_t i = 0; i < kv->n; i++)
		sum += exp(scratch[i] - most);
	for (unsigned d = 0; d < head_dim; d++) {
		double s = 0;

		for (uint32_t i = 0; i < kv->n; i++)
			s += exp(scratch[i] - most) * kv_value(kv, kv->v, i, d);
		out[d] = (float)(s / sum);
	}
}

static void ref_swiglu(float *y, const float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = (float)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
}

static void ref_add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

static size_t ref_round_f16(float *x, size_t n)
{
	size_t saturated = 0;

	for (size_t i = 0; i < n; i++) {
		if (fabsf(x[i]) > F16_MAX) {
			x[i] = copysignf(F16_MAX, x[i]);
			saturated++;
		} else {
			x[i] = f16_to_f32(f32_to_f16(x[i]));
		}
	}
	return saturated;
}

const struct kern kern_ref = {
	.name = "ref",
	.matmul = ref_matmul,
	.rmsnorm = ref_rmsnorm,
	.rope = ref_rope,
	.attend = ref_attend,
	.swiglu = ref_swiglu,
	.add = ref_add,
	.round_f16 = ref_round_f16,
};
