#include "tests/host/npu/fake_compute.h"

#include "tensor/dtype.h"
#include "tensor/f16.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A dot product of four partial sums, always added in the same order. A single
 * chain of additions waits for each of them. */
static double dot(const float *w, const double *x, uint32_t n)
{
	double a = 0, b = 0, c = 0, d = 0;
	uint32_t i = 0;

	for (; i + 4 <= n; i += 4) {
		a += (double)w[i] * x[i];
		b += (double)w[i + 1] * x[i + 1];
		c += (double)w[i + 2] * x[i + 2];
		d += (double)w[i + 3] * x[i + 3];
	}
	for (; i < n; i++)
		a += (double)w[i] * x[i];
	return (a + b) + (c + d);
}

/* y = W x. Returns false if the model has no such tensor. */
static bool fake_matmul(const struct fake_run *r, enum wire_layer_tensor which,
	const double *x, double *y)
{
	const struct wire_tensor *t = &r->tensor[which];
	size_t bytes = dtype_row_bytes(t->type, t->cols);
	const uint8_t *row = r->weights + t->offset;
	float w[FAKE_WIDTH];

	for (uint32_t i = 0; i < t->rows; i++, row += bytes) {
		dtype_info(t->type)->to_f32(w, row, t->cols);
		y[i] = dot(w, x, t->cols);
	}
	return t->rows > 0;
}

/* Returns the values of a vector, or NULL if the model has no such vector. */
static const float *fake_vector(
	const struct fake_run *r, const struct wire_tensor *t)
{
	return t->rows ? (const void *)(r->weights + t->offset) : NULL;
}

static void fake_add(
	const struct fake_run *r, enum wire_layer_tensor which, double *x)
{
	const float *b = fake_vector(r, &r->tensor[which]);

	for (uint32_t i = 0; b && i < r->tensor[which].cols; i++)
		x[i] += (double)b[i];
}

static void fake_norm(const struct fake_run *r, enum wire_layer_tensor which,
	const double *x, double *y, uint32_t n)
{
	const float *w = fake_vector(r, &r->tensor[which]);
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	sum = sqrt(sum / n + (double)r->graph->model.norm_eps);
	for (uint32_t i = 0; i < n; i++)
		y[i] = x[i] / sum * (double)w[i];
}

/* Normalize and rotate each head. */
static void fake_heads(const struct fake_run *r, enum wire_layer_tensor norm,
	double *x, uint32_t heads, uint32_t pos)
{
	const struct wire_model *m = &r->graph->model;
	const float *freq = fake_vector(r, &r->graph->rope_freq);
	uint32_t half = m->n_rot / 2;

	for (uint32_t h = 0; h < heads; h++, x += m->head_dim) {
		if (r->tensor[norm].rows)
			fake_norm(r, norm, x, x, m->head_dim);
		for (uint32_t i = 0; i < half; i++) {
			double *a = m->rope_neox ? x + i : x + 2 * i;
			double *b = m->rope_neox ? a + half : a + 1;
			double t = pos * (double)freq[i];
			double turned = *a * cos(t) - *b * sin(t);

			*b = *a * sin(t) + *b * cos(t);
			*a = turned;
		}
	}
}

/* ---- the cache ----------------------------------------------------------- */

/* The keys (which = 0) or values (which = 1) of a slot in the layer that is
 * being computed. */
static uint8_t *fake_slot(
	const struct fake_run *r, unsigned which, uint32_t slot)
{
	const struct wire_model *m = &r->graph->model;
	size_t half = 2 * (size_t)(r->graph->first_layer + r->layer) + which;

	return r->kv + (half * m->kv_slots + slot) * m->kv_stride;
}

static void fake_keep(const struct fake_run *r, uint8_t *slot, const double *x)
{
	const struct wire_model *m = &r->graph->model;

	for (uint32_t i = 0; i < m->n_kv_head * m->head_dim; i++) {
		float f = (float)x[i];
		uint16_t h = f32_to_f16(f);

		if (wire_kv_f16(r->graph->model.precision))
			memcpy(slot + 2 * i, &h, 2);
		else
			memcpy(slot + 4 * i, &f, 4);
	}
}

/* Read the `n` values from value `first` on of a slot. */
static void fake_kept(const struct fake_run *r, const uint8_t *slot,
	uint32_t first, uint32_t n, float *out)
{
	const bool f16 = wire_kv_f16(r->graph->model.precision);
	const enum dtype type = f16 ? DTYPE_F16 : DTYPE_F32;

	dtype_info(type)->to_f32(out, slot + first * (f16 ? 2 : 4), n);
}

/* List the slots that a row attends to, in the order of summation. Returns
 * their number. */
static uint32_t fake_seen(
	const struct fake_run *r, uint32_t row, uint32_t *slot)
{
	const struct wire_row *at = &r->row[row];
	const uint64_t *mask = r->mask + (size_t)row * r->run->mask_words;
	uint32_t n = 0;

	for (uint32_t s = 0; s < at->n_spans; s++)
		for (uint32_t i = 0; i < r->span[at->first_span + s].count; i++)
			slot[n++] = r->span[at->first_span + s].slot + i;
	for (uint32_t j = 0; j < r->run->rows; j++)
		if (mask[j / 64] >> j % 64 & 1)
			slot[n++] = r->row[j].slot;
	return n;
}

static void fake_attend(const struct fake_run *r, uint32_t row, double *out)
{
	static uint32_t slot[1 << 17];
	static double p[1 << 17];
	const struct wire_model *m = &r->graph->model;
	uint32_t n = fake_seen(r, row, slot), d = m->head_dim;
	float kept[FAKE_WIDTH];

	for (uint32_t h = 0; h < m->n_head; h++) {
		uint32_t kv = h / (m->n_head / m->n_kv_head) * d;
		const double *q = r->query[row] + h * d;
		double sum = 0, most = -INFINITY;

		for (uint32_t t = 0; t < n; t++) {
			fake_kept(r, fake_slot(r, 0, slot[t]), kv, d, kept);
			p[t] = dot(kept, q, d) * (double)m->attn_scale;
			most = p[t] > most ? p[t] : most;
		}
		for (uint32_t t = 0; t < n; t++)
			sum += p[t] = exp(p[t] - most);
		for (uint32_t i = 0; i < d; i++)
			out[h * d + i] = 0;
		for (uint32_t t = 0; t < n; t++) {
			const double share = p[t] / sum;

			fake_kept(r, fake_slot(r, 1, slot[t]), kv, d, kept);
			for (uint32_t i = 0; i < d; i++)
				out[h * d + i] += share * (double)kept[i];
		}
	}
}

/* ---- a layer ------------------------------------------------------------- */

static void fake_before_attention(struct fake_run *r, uint32_t row)
{
	const struct wire_model *m = &r->graph->model;
	const struct wire_row *at = &r->row[row];
	double h[FAKE_WIDTH], k[FAKE_WIDTH], v[FAKE_WIDTH];

	fake_norm(r, WIRE_T_ATTN_NORM, r->x[row], h, m->n_embd);
	fake_matmul(r, WIRE_T_Q, h, r->query[row]);
	fake_matmul(r, WIRE_T_K, h, k);
	fake_matmul(r, WIRE_T_V, h, v);
	fake_add(r, WIRE_T_Q_BIAS, r->query[row]);
	fake_add(r, WIRE_T_K_BIAS, k);
	fake_add(r, WIRE_T_V_BIAS, v);
	fake_heads(r, WIRE_T_Q_NORM, r->query[row], m->n_head, at->position);
	fake_heads(r, WIRE_T_K_NORM, k, m->n_kv_head, at->position);
	fake_keep(r, fake_slot(r, 0, at->slot), k);
	fake_keep(r, fake_slot(r, 1, at->slot), v);
}

static void fake_from_attention(struct fake_run *r, uint32_t row)
{
	const struct wire_model *m = &r->graph->model;
	double a[FAKE_WIDTH], h[FAKE_WIDTH], up[FAKE_WIDTH];
	double *x = r->x[row];

	fake_attend(r, row, a);
	fake_matmul(r, WIRE_T_O, a, h);
	fake_add(r, WIRE_T_O_BIAS, h);
	for (uint32_t i = 0; i < m->n_embd; i++)
		x[i] += h[i];
	fake_norm(r, WIRE_T_FFN_NORM, x, h, m->n_embd);
	fake_matmul(r, WIRE_T_GATE, h, a);
	fake_matmul(r, WIRE_T_UP, h, up);
	for (uint32_t i = 0; i < m->n_ff; i++)
		a[i] = a[i] / (1 + exp(-a[i])) * up[i];
	fake_matmul(r, WIRE_T_DOWN, a, h);
	for (uint32_t i = 0; i < m->n_embd; i++)
		x[i] += h[i];
}

void fake_compute(struct fake_run *r, const float *in, float *out)
{
	uint32_t n = r->run->rows, width = r->graph->model.n_embd;
	const struct wire_tensor *tensors = (const void *)(r->graph + 1);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < width; j++)
			r->x[i][j] = (double)in[i * width + j];
	for (r->layer = 0; r->layer < r->graph->n_layers; r->layer++) {
		r->tensor = tensors + (size_t)r->layer * WIRE_T_COUNT;
		for (uint32_t i = 0; i < n; i++)
			fake_before_attention(r, i);
		for (uint32_t i = 0; i < n; i++)
			fake_from_attention(r, i);
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < width; j++)
			out[i * width + j] = (float)r->x[i][j];
}
