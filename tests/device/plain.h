/*
 * Computes the layers of the rig's model (rig.h) in double precision, one token
 * at a time. The tests compare the device's results with the results of this
 * code. Header only.
 */
#ifndef TESTS_DEVICE_PLAIN_H
#define TESTS_DEVICE_PLAIN_H

#include "tests/device/rig.h"

#define DIM 64

/* Compute y = W x + bias, where W is [n][k]. `bias` may be NULL. */
static inline void plain_matmul(double *y, const double *x, const float *w,
	const float *bias, unsigned n, unsigned k)
{
	for (unsigned j = 0; j < n; j++) {
		y[j] = bias ? bias[j] : 0;
		for (unsigned i = 0; i < k; i++)
			y[j] += (double)w[j * k + i] * x[i];
	}
}

static inline void plain_norm(
	double *y, const double *x, const float *w, unsigned n)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (unsigned i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / n + 1e-5) * w[i];
}

static inline void plain_rotate(
	const struct rig *r, double *x, unsigned heads, double pos)
{
	const struct wire_model *m = &r->model;
	unsigned half = m->n_rot / 2;

	for (unsigned h = 0; h < heads; h++, x += m->head_dim) {
		for (unsigned i = 0; i < half; i++) {
			double *a = m->rope_neox ? x + i : x + 2 * i;
			double *b = m->rope_neox ? x + i + half : x + 2 * i + 1;
			double angle = pos * r->freq[i], was = *a;

			*a = was * cos(angle) - *b * sin(angle);
			*b = was * sin(angle) + *b * cos(angle);
		}
	}
}

struct plain_kv {
	double k[RIG_SLOTS][DIM], v[RIG_SLOTS][DIM];
};

static inline void plain_attend(const struct rig *r, double *out,
	const double *q, const struct plain_kv *kv, unsigned n)
{
	unsigned dim = r->model.head_dim;
	unsigned group = r->model.n_head / r->model.n_kv_head;

	for (unsigned h = 0; h < r->model.n_head; h++) {
		unsigned at = h / group * dim;
		double p[RIG_SLOTS], sum = 0, top = -INFINITY;

		for (unsigned t = 0; t < n; t++) {
			p[t] = 0;
			for (unsigned i = 0; i < dim; i++)
				p[t] += q[h * dim + i] * kv->k[t][at + i];
			p[t] *= (double)r->model.attn_scale;
			top = fmax(top, p[t]);
		}
		for (unsigned t = 0; t < n; t++)
			sum += p[t] = exp(p[t] - top);
		for (unsigned i = 0; i < dim; i++) {
			out[h * dim + i] = 0;
			for (unsigned t = 0; t < n; t++)
				out[h * dim + i] +=
					p[t] / sum * kv->v[t][at + i];
		}
	}
}

static inline void plain_head_norms(
	const struct rig *r, double *x, unsigned heads, const float *w)
{
	unsigned n = heads * r->model.head_dim;
	unsigned dim = r->opts.wide_norms ? n : r->model.head_dim;

	for (unsigned i = 0; w && i < n; i += dim)
		plain_norm(x + i, x + i, w, dim);
}

/* Add the output of the attention block of layer `l` to x, the hidden state of
 * the token at position `pos`. */
static inline void plain_attention(const struct rig *r, unsigned l, double *x,
	struct plain_kv *kv, unsigned pos)
{
	float *const *w = r->value[l];
	double h[DIM], q[128], a[128];

	plain_norm(h, x, w[WIRE_T_ATTN_NORM], DIM);
	plain_matmul(q, h, w[WIRE_T_Q], w[WIRE_T_Q_BIAS], 128, DIM);
	plain_matmul(kv->k[pos], h, w[WIRE_T_K], w[WIRE_T_K_BIAS], 64, DIM);
	plain_matmul(kv->v[pos], h, w[WIRE_T_V], w[WIRE_T_V_BIAS], 64, DIM);
	plain_head_norms(r, q, 4, w[WIRE_T_Q_NORM]);
	plain_head_norms(r, kv->k[pos], 2, w[WIRE_T_K_NORM]);
	plain_rotate(r, q, 4, pos);
	plain_rotate(r, kv->k[pos], 2, pos);
	plain_attend(r, a, q, kv, pos + 1);
	plain_matmul(h, a, w[WIRE_T_O], w[WIRE_T_O_BIAS], DIM, 128);
	for (unsigned i = 0; i < DIM; i++)
		x[i] += h[i];
}

/* Add `weight` times the FFN's output for the input h to x. w[] has the gate,
 * up and down matrices; the FFN has n inner values. */
static inline void plain_ffn(float *const w[3], unsigned n, double *x,
	const double *h, double weight)
{
	double g[256], u[256], y[DIM];

	plain_matmul(g, h, w[0], NULL, n, DIM);
	plain_matmul(u, h, w[1], NULL, n, DIM);
	for (unsigned i = 0; i < n; i++)
		g[i] = g[i] / (1 + exp(-g[i])) * u[i];
	plain_matmul(y, g, w[2], NULL, DIM, n);
	for (unsigned i = 0; i < DIM; i++)
		x[i] += weight * y[i];
}

static inline void plain_layer(const struct rig *r, unsigned l, double *x,
	struct plain_kv *kv, unsigned pos)
{
	double h[DIM];

	plain_attention(r, l, x, kv, pos);
	plain_norm(h, x, r->value[l][WIRE_T_FFN_NORM], DIM);
	plain_ffn(&r->value[l][WIRE_T_GATE], 96, x, h, 1);
}

/* Run all layers on a sequence of n tokens. `in` and `out` are [n][DIM]. */
static inline void plain_forward(
	const struct rig *r, unsigned n, const float *in, double *out)
{
	struct plain_kv *kv = calloc(RIG_LAYERS, sizeof(*kv));

	for (unsigned t = 0; t < n; t++) {
		double *x = out + t * DIM;

		for (unsigned i = 0; i < DIM; i++)
			x[i] = in[t * DIM + i];
		for (unsigned l = 0; l < RIG_LAYERS; l++)
			plain_layer(r, l, x, &kv[l], t);
	}
	free(kv);
}

#endif
