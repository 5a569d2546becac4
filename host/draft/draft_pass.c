#include "host/draft/draft_impl.h"

#include "base/checked.h"
#include "base/workers.h"
#include "host/model/model.h"
#include "host/session/pricing.h"
#include "tensor/kern.h"
#include "tensor/layout.h"
#include "tensor/tile.h"

#include <math.h>
#include <string.h>

/* ---- operators of a layer ------------------------------------------------ */

/* The rows of a pass: rows of one model, or of several models that share
 * weights. */
struct pass {
	struct draft_model *d; /* the model whose workspace is used */
	uint32_t rows, layer;
	/* for each row of the pass: its model, and its index among that model's
	 * uncommitted rows */
	struct draft_model *of[PASS_ROWS];
	uint32_t number[PASS_ROWS];
};

struct matmul {
	struct draft_model *d;
	struct draft_tensor w;
	const float *x;
	float *y;
	uint32_t rows, n, k;
	struct kern_parts parts; /* in units of TILE columns of y */
};

static void matmul_part(void *arg, unsigned i, unsigned thread)
{
	const struct matmul *j = arg;
	struct draft_model *d = j->d;
	const struct kern_part part = kern_part(&j->parts, i);
	uint32_t from = part.first * TILE, n = part.n * TILE;
	const uint8_t *w = j->w.data;
	void *scratch = d->scratch + thread * d->scratch_floats;
	const struct kern_rows rows = { j->x, j->k, d->int8 ? d->q8 : NULL,
		j->rows };

	if (!n)
		return;
	n = n < j->n - from ? n : j->n - from;
	w += layout_bytes(j->w.type, from, j->k);
	kern_multiply(d->kern, j->y + from, j->n, &rows, j->w.type, w, n, j->k,
		scratch);
}

/*
 * Prepare x[rows][k] as the input of n matrices w[n]. With float32 arithmetic,
 * x stays as it is. With int8 arithmetic, x is rounded to fp16 if any matrix
 * has no int8 kernel, and quantized into d->q8 if any matrix has an int8
 * kernel.
 */
static void operand(struct draft_model *d, float *x, uint32_t k, uint32_t rows,
	const struct draft_tensor *w, unsigned n)
{
	unsigned int8 = 0;

	if (!d->int8)
		return;
	for (unsigned i = 0; i < n; i++)
		int8 += kern_takes_q8(w[i].type);
	if (int8 < n)
		d->kern->round_f16(x, (size_t)rows * k);
	for (uint32_t r = 0; int8 && r < rows; r++)
		d->kern->quantize(
			d->q8 + r * kern_q8_bytes(k), x + (size_t)r * k, k);
}

/* Multiply: y[rows][n] = x[rows][k] times the transpose of w[n][k]. */
static void matmul(struct draft_model *d, struct draft_tensor w, float *y,
	uint32_t n, const float *x, uint32_t k, uint32_t rows)
{
	uint64_t work = (uint64_t)rows * n * k;
	struct matmul j = { d, w, x, y, rows, n, k };

	j.parts = kern_parts((n + TILE - 1) / TILE,
		layout_bytes(w.type, TILE, k), SIZE_MAX,
		work < WORKERS_WORTH ? 1 : workers_count(d->workers));
	workers_share(
		d->workers, work, matmul_part, &j, kern_parts_count(&j.parts));
}

static void norm(const struct pass *p, struct draft_tensor weight)
{
	struct draft_model *d = p->d;
	uint32_t n = d->model->n_embd;

	for (uint32_t r = 0; r < p->rows; r++)
		d->kern->rmsnorm(d->h + (size_t)r * n, d->x + (size_t)r * n,
			weight.data, n, d->model->norm_eps);
}

static void add_bias(
	const struct pass *p, struct draft_tensor bias, float *y, uint32_t n)
{
	for (uint32_t r = 0; bias.data && r < p->rows; r++)
		p->d->kern->add(y + (size_t)r * n, bias.data, n);
}

/* Normalise the heads of queries or keys y[rows][n], if the model has a norm
 * weight for them, and rotate them (RoPE). */
static void place_heads(
	const struct pass *p, struct draft_tensor weight, float *y, uint32_t n)
{
	const struct draft_model *d = p->d;
	const struct model *m = d->model;
	uint32_t half = m->n_rot / 2;

	for (uint32_t r = 0; r < p->rows; r++, y += n) {
		for (uint32_t i = 0; i < n; i += m->head_dim) {
			if (weight.data)
				d->kern->rmsnorm(y + i, y + i, weight.data,
					m->head_dim, m->norm_eps);
			d->kern->rope(y + i, d->cos + (size_t)r * half,
				d->sin + (size_t)r * half, m->n_rot,
				m->rope_neox);
		}
	}
}

/* Address of the keys (which == 0) or values (which == 1) of a layer, from
 * cache slot `slot` on. */
static uint8_t *cached(const struct draft_model *d, uint32_t layer,
	unsigned which, size_t slot)
{
	return d->kv +
		((2 * (size_t)layer + which) * d->context + slot) * d->kv_row;
}

static void keep(const struct draft_model *d, uint8_t *to, float *x)
{
	if (d->int8)
		d->kern->store_f16((uint16_t *)to, x, d->kv_dim);
	else
		memcpy(to, x, d->kv_row);
}

/* Compute attention of one row, for all query heads that share one key-value
 * head. */
static void attend_part(void *arg, unsigned part, unsigned thread)
{
	const struct pass *p = arg;
	struct draft_model *d = p->d;
	const struct model *m = d->model;
	uint32_t row = part / m->n_kv_head, kv_head = part % m->n_kv_head;
	uint32_t group = m->n_head / m->n_kv_head;
	size_t head = (size_t)kv_head * m->head_dim;
	size_t q = (size_t)row * d->q_dim + head * group;
	size_t at = head * (d->kv_row / d->kv_dim);
	uint32_t *slot = d->slot + (size_t)thread * d->context;
	const struct draft_model *of = p->of[row];
	uint32_t number = p->number[row], first = d->state != NULL, n;
	struct kern_kv kv = {
		.k = cached(of, p->layer, 0, 0) + at,
		.v = cached(of, p->layer, 1, 0) + at,
		.stride = d->kv_row,
		.f16 = d->int8,
		.slot = slot + first,
	};

	/* The row attends to the cached tokens, its ancestors and itself. An
	 * EAGLE head has no row for position 0, so attention begins at position
	 * 1. */
	n = of->n + of->row[number].depth + 1;
	kv.n = n - first;
	for (uint32_t i = 0; i < of->n; i++)
		slot[i] = i;
	for (uint32_t i = n; i-- > of->n;
		number = (uint32_t)of->row[number].parent)
		slot[i] = of->n + number;
	d->kern->attend(d->seen + q, d->q + q, group, &kv, m->head_dim,
		(float)(1 / sqrt(m->head_dim)),
		d->scratch + thread * d->scratch_floats);
}

static void attention(struct pass *p, const struct draft_tensor *w)
{
	struct draft_model *d = p->d;
	const struct model *m = d->model;
	uint64_t seen = 0;
	const struct draft_tensor qkv[] = { w[WIRE_T_Q], w[WIRE_T_K],
		w[WIRE_T_V] };

	norm(p, w[WIRE_T_ATTN_NORM]);
	operand(d, d->h, m->n_embd, p->rows, qkv, ARRAY_LEN(qkv));
	matmul(d, w[WIRE_T_Q], d->q, d->q_dim, d->h, m->n_embd, p->rows);
	matmul(d, w[WIRE_T_K], d->k, d->kv_dim, d->h, m->n_embd, p->rows);
	matmul(d, w[WIRE_T_V], d->v, d->kv_dim, d->h, m->n_embd, p->rows);
	add_bias(p, w[WIRE_T_Q_BIAS], d->q, d->q_dim);
	add_bias(p, w[WIRE_T_K_BIAS], d->k, d->kv_dim);
	add_bias(p, w[WIRE_T_V_BIAS], d->v, d->kv_dim);
	place_heads(p, w[WIRE_T_Q_NORM], d->q, d->q_dim);
	place_heads(p, w[WIRE_T_K_NORM], d->k, d->kv_dim);
	if (d->int8)
		d->kern->round_f16(d->q, (size_t)p->rows * d->q_dim);
	for (uint32_t r = 0; r < p->rows; r++) {
		const struct draft_model *of = p->of[r];
		size_t slot = of->n + p->number[r], row = (size_t)r * d->kv_dim;

		keep(d, cached(of, p->layer, 0, slot), d->k + row);
		keep(d, cached(of, p->layer, 1, slot), d->v + row);
		seen += of->n + of->rows;
	}
	workers_share(d->workers, 2 * seen * d->q_dim, attend_part, p,
		p->rows * m->n_kv_head);
	operand(d, d->seen, d->q_dim, p->rows, &w[WIRE_T_O], 1);
	matmul(d, w[WIRE_T_O], d->h, m->n_embd, d->seen, d->q_dim, p->rows);
	add_bias(p, w[WIRE_T_O_BIAS], d->h, m->n_embd);
	d->kern->add(d->x, d->h, (size_t)p->rows * m->n_embd);
}

/* ---- cost on the simulated phone's CPU ----------------------------------- */

static void price_matrix(struct draft_model *d, uint32_t rows, uint64_t n,
	uint64_t k, enum dtype type, bool down)
{
	struct price p;

	if (d->priced_type.type != DTYPE_F32)
		type = down ? d->priced_type.down : d->priced_type.type;
	if (!price_cpu_matmul(d->soc, rows, n, k, type, &p))
		price_add(&d->price, &p);
}

/* Add the cost of the matrices of all layers. Attention, norms and activation
 * functions are left out, because their cost is negligible in a small model. */
static void price_layers(struct draft_model *d, uint32_t rows)
{
	uint64_t width = d->priced.n_embd;

	if (d->soc && d->state)
		price_matrix(
			d, rows, width, 2 * width, d->weights.fc.type, false);
	for (uint32_t l = 0; d->soc && l < d->priced_layers; l++) {
		uint64_t from = (uint64_t)l * d->model->n_layer;
		const struct draft_tensor *w =
			d->weights.layer[from / d->priced_layers];

		for (unsigned i = 0; i < PRICE_MATRICES; i++) {
			uint64_t n, k;

			price_layer_matrix(&d->priced, i, &n, &k);
			price_matrix(d, rows, n, k, w[pricing_tensor[i]].type,
				i == PRICE_DOWN);
		}
	}
}

/* ---- a pass -------------------------------------------------------------- */

void draft_pass(const struct draft_part *part, unsigned n)
{
	struct draft_model *d = part->d;
	const struct model *m = d->model;
	struct pass p = { .d = d };
	uint32_t half = m->n_rot / 2, n_embd = m->n_embd;

	for (unsigned i = 0; i < n; i++)
		for (uint32_t r = 0; r < part[i].rows; r++) {
			struct draft_model *of = part[i].d;
			uint32_t number = part[i].first + r, at = p.rows++;

			p.of[at] = of;
			p.number[at] = number;
			/* model_embed cannot fail: the caller of draft_open
			 * kept the embedding in memory. */
			model_embed(m, (uint32_t)of->token[of->n + number],
				d->x + (size_t)at * m->n_embd, NULL);
			kern_angles(d->cos + (size_t)at * half,
				d->sin + (size_t)at * half,
				of->n + of->row[number].depth, m->rope_freq,
				half);
		}
	price_layers(d, p.rows);

	/* The input of an EAGLE head: x = fc [norm(embedding), g], where g is
	 * the state of the row's parent (draft_model.h). When this loop begins,
	 * d->x holds the embeddings of all rows. */
	for (uint32_t r = 0; d->state && r < p.rows; r++) {
		const struct draft_model *of = p.of[r];
		int32_t parent = of->row[p.number[r]].parent;
		/* cache slot of the parent; parent -1 means the last cached
		 * token */
		size_t before = of->n + (size_t)(parent + 1) - 1;
		float *pair = d->pair + (size_t)r * 2 * n_embd;

		d->kern->rmsnorm(pair, d->x + (size_t)r * n_embd,
			d->weights.embd_norm.data, n_embd, m->norm_eps);
		memcpy(pair + n_embd, of->state + before * n_embd,
			n_embd * sizeof(*pair));
	}
	if (d->state) {
		operand(d, d->pair, 2 * n_embd, p.rows, &d->weights.fc, 1);
		matmul(d, d->weights.fc, d->x, n_embd, d->pair, 2 * n_embd,
			p.rows);
	}

	for (; p.layer < m->n_layer; p.layer++) {
		const struct draft_tensor *w = d->weights.layer[p.layer];
		const struct draft_tensor gate_up[] = { w[WIRE_T_GATE],
			w[WIRE_T_UP] };

		attention(&p, w);
		norm(&p, w[WIRE_T_FFN_NORM]);
		operand(d, d->h, n_embd, p.rows, gate_up, ARRAY_LEN(gate_up));
		matmul(d, w[WIRE_T_GATE], d->gate, m->n_ff, d->h, n_embd,
			p.rows);
		matmul(d, w[WIRE_T_UP], d->up, m->n_ff, d->h, n_embd, p.rows);
		d->kern->swiglu(
			d->gate, d->gate, d->up, (size_t)p.rows * m->n_ff);
		operand(d, d->gate, m->n_ff, p.rows, &w[WIRE_T_DOWN], 1);
		matmul(d, w[WIRE_T_DOWN], d->h, n_embd, d->gate, m->n_ff,
			p.rows);
		d->kern->add(d->x, d->h, (size_t)p.rows * n_embd);
	}
}

void draft_logits(
	struct draft_model *d, const uint32_t *row, uint32_t n, float *logits)
{
	const struct model *m = d->model;
	struct draft_tensor w = d->weights.output;

	for (uint32_t r = 0; r < n; r++)
		d->kern->rmsnorm(d->h + (size_t)r * m->n_embd,
			d->x + (size_t)row[r] * m->n_embd,
			d->weights.output_norm.data, m->n_embd, m->norm_eps);
	/* If the output matrix has no int8 kernel, a session on the device
	 * computes float32 logits from unquantized states. Use unquantized
	 * states here too, so that host and device compute equal logits. */
	if (kern_takes_q8(w.type))
		operand(d, d->h, m->n_embd, n, &w, 1);
	matmul(d, w, logits, m->n_vocab, d->h, m->n_embd, n);
	if (d->soc)
		price_matrix(
			d, n, d->priced_vocab, d->priced.n_embd, w.type, false);
}
