#include "tests/host/npu/fake_compute.h"

#include "tensor/dtype.h"
#include "tensor/f16.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define FAKE_SLOTS (1 << 17) /* maximum cache slots that a row attends to */
#define FAKE_HEADS 32        /* maximum number of heads */

/* One vector per row. */
typedef double fake_rows[FAKE_ROWS][FAKE_WIDTH];

typedef double pair
	__attribute__((vector_size(16), aligned(sizeof(double)), may_alias));

/* A dot product of four partial sums, always added in the same order. */
static double dot(const double *w, const double *x, size_t n)
{
	pair a = { 0 }, b = { 0 };
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		a += *(const pair *)(w + i) * *(const pair *)(x + i);
		b += *(const pair *)(w + i + 2) * *(const pair *)(x + i + 2);
	}
	for (; i < n; i++)
		a[0] += w[i] * x[i];
	return (a[0] + a[1]) + (b[0] + b[1]);
}

static void fake_widen(
	enum dtype type, const uint8_t *from, uint32_t n, double *to)
{
	float f[FAKE_WIDTH];

	dtype_info(type)->to_f32(f, from, n);
	for (uint32_t i = 0; i < n; i++)
		to[i] = (double)f[i];
}

/* y = W x for all rows of the run, so that W is converted once. */
static void fake_matmul(const struct fake_run *r, enum wire_layer_tensor which,
	fake_rows x, fake_rows y)
{
	const struct wire_tensor *t = &r->tensor[which];
	size_t bytes = dtype_row_bytes(t->type, t->cols);
	const uint8_t *row = r->weights + t->offset;
	double w[FAKE_WIDTH];

	for (uint32_t i = 0; i < t->rows; i++, row += bytes) {
		fake_widen(t->type, row, t->cols, w);
		for (uint32_t j = 0; j < r->run->rows; j++)
			y[j][i] = dot(w, x[j], t->cols);
	}
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

/* Read all heads of a slot. */
static void fake_kept(
	const struct fake_run *r, unsigned which, uint32_t slot, double *out)
{
	const struct wire_model *m = &r->graph->model;
	const enum dtype type =
		wire_kv_f16(m->precision) ? DTYPE_F16 : DTYPE_F32;

	fake_widen(type, fake_slot(r, which, slot), m->n_kv_head * m->head_dim,
		out);
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
	static uint32_t slot[FAKE_SLOTS];
	static double score[FAKE_SLOTS * FAKE_HEADS]; /* [n][n_head] */
	const struct wire_model *m = &r->graph->model;
	uint32_t n = fake_seen(r, row, slot), d = m->head_dim;
	uint32_t heads = m->n_head, group = heads / m->n_kv_head;
	double kept[FAKE_WIDTH], most[FAKE_HEADS], sum[FAKE_HEADS] = { 0 };
	double *p = score;

	assert(n <= FAKE_SLOTS && heads <= FAKE_HEADS);
	for (uint32_t h = 0; h < heads; h++)
		most[h] = -INFINITY;
	for (uint32_t t = 0; t < n; t++, p += heads) {
		fake_kept(r, 0, slot[t], kept);
		for (uint32_t h = 0; h < heads; h++) {
			const double *q = r->query[row] + h * d;

			p[h] = dot(kept + h / group * d, q, d) *
				(double)m->attn_scale;
			most[h] = p[h] > most[h] ? p[h] : most[h];
		}
	}
	p = score;
	for (uint32_t t = 0; t < n; t++, p += heads)
		for (uint32_t h = 0; h < heads; h++)
			sum[h] += p[h] = exp(p[h] - most[h]);
	memset(out, 0, heads * d * sizeof(*out));
	p = score;
	for (uint32_t t = 0; t < n; t++, p += heads) {
		fake_kept(r, 1, slot[t], kept);
		for (uint32_t h = 0; h < heads; h++) {
			const double *v = kept + h / group * d;
			const double share = p[h] / sum[h];

			for (uint32_t i = 0; i < d; i++)
				out[h * d + i] += share * v[i];
		}
	}
}

/* ---- a layer ------------------------------------------------------------- */

static void fake_before_attention(struct fake_run *r)
{
	static fake_rows h, k, v;
	const struct wire_model *m = &r->graph->model;

	for (uint32_t i = 0; i < r->run->rows; i++)
		fake_norm(r, WIRE_T_ATTN_NORM, r->x[i], h[i], m->n_embd);
	fake_matmul(r, WIRE_T_Q, h, r->query);
	fake_matmul(r, WIRE_T_K, h, k);
	fake_matmul(r, WIRE_T_V, h, v);
	for (uint32_t i = 0; i < r->run->rows; i++) {
		const struct wire_row *at = &r->row[i];
		double *q = r->query[i];

		fake_add(r, WIRE_T_Q_BIAS, q);
		fake_add(r, WIRE_T_K_BIAS, k[i]);
		fake_add(r, WIRE_T_V_BIAS, v[i]);
		fake_heads(r, WIRE_T_Q_NORM, q, m->n_head, at->position);
		fake_heads(r, WIRE_T_K_NORM, k[i], m->n_kv_head, at->position);
		fake_keep(r, fake_slot(r, 0, at->slot), k[i]);
		fake_keep(r, fake_slot(r, 1, at->slot), v[i]);
	}
}

static void fake_from_attention(struct fake_run *r)
{
	static fake_rows a, h, up;
	const struct wire_model *m = &r->graph->model;
	uint32_t rows = r->run->rows;

	for (uint32_t i = 0; i < rows; i++)
		fake_attend(r, i, a[i]);
	fake_matmul(r, WIRE_T_O, a, h);
	for (uint32_t i = 0; i < rows; i++) {
		fake_add(r, WIRE_T_O_BIAS, h[i]);
		for (uint32_t j = 0; j < m->n_embd; j++)
			r->x[i][j] += h[i][j];
		fake_norm(r, WIRE_T_FFN_NORM, r->x[i], h[i], m->n_embd);
	}
	fake_matmul(r, WIRE_T_GATE, h, a);
	fake_matmul(r, WIRE_T_UP, h, up);
	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t j = 0; j < m->n_ff; j++)
			a[i][j] = a[i][j] / (1 + exp(-a[i][j])) * up[i][j];
	fake_matmul(r, WIRE_T_DOWN, a, h);
	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t j = 0; j < m->n_embd; j++)
			r->x[i][j] += h[i][j];
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
		fake_before_attention(r);
		fake_from_attention(r);
	}
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < width; j++)
			out[i * width + j] = (float)r->x[i][j];
}
