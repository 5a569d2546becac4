#include "host/session/pricing.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "shm/coherence/tandem_coherence.h"
#include "tensor/kern.h"
#include "tensor/layout.h"
#include "tensor/soc/price_host.h"
#include "tensor/soc/soc.h"
#include "tensor/visibility.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- layers -------------------------------------------------------------- */

const enum wire_layer_tensor pricing_tensor[PRICE_MATRICES] = {
	[PRICE_Q] = WIRE_T_Q,
	[PRICE_K] = WIRE_T_K,
	[PRICE_V] = WIRE_T_V,
	[PRICE_O] = WIRE_T_O,
	[PRICE_GATE] = WIRE_T_GATE,
	[PRICE_UP] = WIRE_T_UP,
	[PRICE_DOWN] = WIRE_T_DOWN,
	[PRICE_SHARED_GATE] = WIRE_T_SHARED_GATE,
	[PRICE_SHARED_UP] = WIRE_T_SHARED_UP,
	[PRICE_SHARED_DOWN] = WIRE_T_SHARED_DOWN,
};

static struct price_layer priced_layer(
	const struct pricing *p, const struct wire_tensor tensor[WIRE_T_COUNT])
{
	const struct model *m = p->model;
	struct price_layer l = { .n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_ff = m->n_ff,
		.head_norm = tensor[WIRE_T_Q_NORM].rows,
		.int8 = p->precision == WIRE_INT8,
		.exp = p->precision == WIRE_NPU ? PRICE_EXP_TABLE
						: PRICE_EXP_F32 };

	if (p->as) {
		l.n_embd = p->as->n_embd;
		l.n_head = p->as->n_head;
		l.n_kv_head = p->as->n_kv_head;
		l.head_dim = p->as->head_dim;
		l.n_ff = p->as->n_ff;
		l.head_norm = p->as->qk_norm;
	}
	for (unsigned i = 0; i < PRICE_MATRICES; i++)
		l.type[i] = (enum dtype)tensor[pricing_tensor[i]].type;
	l.n_expert = m->n_expert;
	l.n_used = m->n_used;
	l.n_shared = m->n_shared;
	l.router = (enum dtype)tensor[WIRE_T_ROUTER].type;
	l.bias[PRICE_Q] = p->as ? p->as->qkv_bias : tensor[WIRE_T_Q_BIAS].rows;
	l.bias[PRICE_K] = p->as ? p->as->qkv_bias : tensor[WIRE_T_K_BIAS].rows;
	l.bias[PRICE_V] = p->as ? p->as->qkv_bias : tensor[WIRE_T_V_BIAS].rows;
	l.bias[PRICE_O] = !p->as && tensor[WIRE_T_O_BIAS].rows;
	return l;
}

int pricing_init(struct pricing *p, const struct soc *soc,
	const struct shape *as, const struct model *m,
	enum wire_precision precision, const struct block *block,
	uint32_t n_blocks, struct err *e)
{
	*p = (struct pricing){ soc, as, m, block, precision,
		calloc(m->n_layer, sizeof(*p->layer)),
		as ? as->n_layer : m->layers_before + m->n_layer };
	p->output = m->output->type;
	if (!p->layer)
		return err_set(e, ENOMEM,
			"no memory for the cost model of %u layers",
			m->n_layer);
	for (uint32_t b = 0; b < n_blocks; b++)
		for (uint32_t l = 0;
			block_begins(&block[b]) && l < block[b].n_layers; l++)
			p->layer[block[b].first_layer + l] =
				priced_layer(p, block[b].tensor[l]);
	return 0;
}

void pricing_release(struct pricing *p)
{
	free(p->layer);
	p->layer = NULL;
}

/* With `as` (the shape that is priced instead of the real model), a real layer
 * stands for one or more layers of this shape. Return the first of these layers
 * for real layer l. */
static uint32_t stands_for(const struct pricing *p, uint32_t l)
{
	const struct model *m = p->model;

	return (uint32_t)((uint64_t)(m->layers_before + l) * p->layers /
		(m->layers_before + m->n_layer));
}

struct share pricing_share(const struct pricing *p, uint32_t block)
{
	const struct block *b = &p->block[block];

	return (struct share){ stands_for(p, b->first_layer + !block_ends(b)),
		stands_for(p, b->first_layer + b->n_layers) };
}

/* The last of the real layers that stand for layer `priced` of the shape
 * `as`. */
static const struct price_layer *layer_at(
	const struct pricing *p, uint32_t priced)
{
	const struct model *m = p->model;
	uint64_t all = m->layers_before + m->n_layer;

	return &p->layer[((priced + 1) * all - 1) / p->layers -
		m->layers_before];
}

void pricing_retype(struct pricing *p, struct shape_type type,
	enum layout layout, size_t strip_max)
{
	uint64_t n, k;

	if (type.type == DTYPE_F32)
		return;
	p->output = type.type;
	for (uint32_t l = 0; l < p->model->n_layer; l++)
		for (unsigned i = 0; i < PRICE_MATRICES; i++) {
			price_layer_matrix(&p->layer[l], i, &n, &k);
			p->layer[l].type[i] = layout_type(layout,
				i == PRICE_DOWN ? type.down : type.type,
				(uint32_t)k, strip_max);
		}
}

void pricing_keep(
	struct pricing *p, const struct residency *residency, double share)
{
	uint32_t run = p->layers - stands_for(p, 0);
	uint32_t like = (uint32_t)((uint64_t)run * residency->resident /
		residency->n_layer);
	/* The small margin prevents a rounding error: 29 % of 100 layers must
	 * be 29 layers, not 28. */
	uint32_t stay = (uint32_t)(share * p->layers + 1e-6);

	p->residency = *residency;
	p->streamed = run - (stay > like ? stay : like);
}

/* Whether two layers have the same cost. Only the members that are compared
 * here can differ between the layers of a model. */
static bool alike(const struct price_layer *a, const struct price_layer *b)
{
	return a->head_norm == b->head_norm &&
		!memcmp(a->bias, b->bias, sizeof(a->bias)) &&
		!memcmp(a->type, b->type, sizeof(a->type));
}

/* ---- layers on the CPU --------------------------------------------------- */

/* Cost of computing layers [s.first, s.end) of the priced shape on the CPU.
 * `maps`: attention weights are computed as well. */
static void cpu_layers(const struct pricing *p, struct share s,
	const struct price_batch *b, bool maps, struct price *out)
{
	uint64_t halves = maps ? 3 : 2, slots = 0, scores = 0, q, kv, n, k;
	struct price part;

	for (uint32_t i = 0; i < b->pieces; i++) {
		slots += b->piece[i].slots;
		scores += (uint64_t)b->piece[i].rows * b->piece[i].slots;
	}
	*out = (struct price){ 0 };
	for (uint32_t i = s.first; i < s.end; i++) {
		const struct price_layer *l = layer_at(p, i);

		for (unsigned m = 0; m < PRICE_MATRICES; m++) {
			price_layer_matrix(l, m, &n, &k);
			if (!price_cpu_matmul(p->soc, b->rows, n,
				    align_up(k, TILE), l->type[m], &part))
				price_add(out, &part);
		}
		/* Attention: the scores, the weighted sum of the values and,
		 * with `maps`, the attention weights. Each of the two or three
		 * takes a multiplication and an addition for every value of
		 * every head. Slots that several rows attend to are read once.
		 */
		q = (uint64_t)l->n_head * l->head_dim;
		kv = (uint64_t)l->n_kv_head * l->head_dim;
		price_cpu(p->soc,
			halves * slots * kv * wire_kv_elt(p->precision) +
				2 * b->rows * q * sizeof(float),
			2 * halves * scores * q, &part);
		price_add(out, &part);
	}
}

/* ---- runs ---------------------------------------------------------------- */

/* Bytes of the RoPE frequencies that precede a block's weights. */
static uint64_t rope_bytes(const struct pricing *p)
{
	uint32_t n = p->as ? p->as->head_dim : p->model->n_rot;

	return n / 2 * sizeof(float);
}

void pricing_layers(const struct pricing *p, const struct priced_run *r,
	struct share s, struct price *out)
{
	const struct visibility_piece one = { r->rows, r->longest };
	const struct price_batch batch = { r->graph_rows, r->rows,
		r->piece ? r->piece : &one, r->piece ? r->pieces : 1,
		r->extended };
	struct price layer = { 0 };
	const struct price_layer *last = NULL;

	*out = (struct price){ 0 };
	if (p->by_cpu) {
		cpu_layers(p, s, &batch, false, out);
		return;
	}
	for (uint32_t l = s.first; l < s.end; l++) {
		if (!last || !alike(layer_at(p, l), last)) {
			last = layer_at(p, l);
			layer = (struct price){ 0 };
			price_layer(p->soc, last, &batch, &layer);
		}
		price_add(out, &layer);
	}
}

void pricing_run(
	const struct pricing *p, const struct priced_run *r, struct price *out)
{
	struct share s = pricing_share(p, r->block);
	struct price part;

	s.first += r->priced;
	pricing_layers(p, r, s, out);
	if (p->by_cpu)
		return;
	price_request(p->soc, &part);
	price_add(out, &part);
	if (r->extended && rope_bytes(p)) {
		price_dma(p->soc, rope_bytes(p), &part);
		price_add(out, &part);
	}
}

/* ---- cache maintenance, and bytes of layers ------------------------------ */

/* Bytes of a row's hidden state, plus bytes of the row's keys and values in
 * `layers` layers. */
static uint64_t row_bytes(
	const struct pricing *p, uint32_t embd, uint64_t kv, uint32_t layers)
{
	return embd * sizeof(float) +
		2ull * layers *
		align_up(kv * wire_kv_elt(p->precision), COHERENCE_LINE);
}

void pricing_maintenance(const struct pricing *p, uint32_t block,
	uint64_t bytes, uint64_t rings, struct price *out)
{
	const struct model *m = p->model;
	struct share s = pricing_share(p, block);

	/* Scale the bytes to the shape `as`, except for an NPU with two cache
	 * levels: there a cache-maintenance call works on the whole cache and
	 * costs the same for every shape. */
	if (p->by_cpu)
		bytes = rings = 0;
	else if (p->as && p->soc->cache_levels < 2)
		bytes = bytes *
			row_bytes(p, p->as->n_embd,
				p->as->n_kv_head * p->as->head_dim,
				s.end - s.first) /
			row_bytes(p, m->n_embd, m->n_kv_head * m->head_dim,
				p->block[block].n_layers);
	price_maintenance(p->soc, bytes + rings, out);
}

static uint64_t vector_bytes(uint64_t n)
{
	return align_up(n * sizeof(float), COHERENCE_LINE);
}

/* Bytes of a layer of the priced shape, laid out as in
 * host/memory/weights.h. */
static uint64_t layer_bytes(const struct shape *as, const struct price_layer *l)
{
	uint64_t q = (uint64_t)as->n_head * as->head_dim;
	uint64_t kv = (uint64_t)as->n_kv_head * as->head_dim;
	uint64_t bytes = 2 * vector_bytes(as->n_embd), n, k;

	if (as->qkv_bias)
		bytes += vector_bytes(q) + 2 * vector_bytes(kv);
	if (as->qk_norm)
		bytes += 2 * vector_bytes(as->head_dim);
	for (unsigned i = 0; i < PRICE_MATRICES; i++) {
		price_layer_matrix(l, i, &n, &k);
		bytes += align_up(
			layout_bytes(l->type[i], (uint32_t)n, (uint32_t)k),
			COHERENCE_LINE);
	}
	return bytes;
}

uint64_t pricing_bytes(
	const struct pricing *p, uint32_t block, struct share layers)
{
	uint64_t bytes;

	if (!p->as)
		return p->block[block].bytes;
	bytes = vector_bytes(p->as->head_dim / 2);
	for (uint32_t l = layers.first; l < layers.end; l++)
		bytes += layer_bytes(p->as, layer_at(p, l));
	return bytes;
}

void pricing_map(const struct pricing *p, uint64_t bytes, struct price *out)
{
	struct price request;

	if (p->by_cpu) {
		*out = (struct price){ 0 };
		return;
	}
	price_map(p->soc, bytes, out);
	price_request(p->soc, &request);
	price_add(out, &request);
}

uint64_t pricing_read(const struct pricing *p, uint32_t layer, uint32_t i)
{
	const struct residency *r = &p->residency;
	uint32_t n = r->n_layer - r->resident, at = 0;

	for (uint32_t l = 0; l < layer; l++)
		at += residency_streams(r, l);
	return i < p->streamed * (at + 1) / n - p->streamed * at / n
		? layer_bytes(p->as, &p->layer[layer])
		: 0;
}

/* ---- work of the CPU ----------------------------------------------------- */

void pricing_logits(const struct pricing *p, uint32_t rows, struct price *out)
{
	const struct model *m = p->model;

	price_cpu_matmul(p->soc, rows, p->as ? p->as->n_vocab : m->n_vocab,
		p->as ? p->as->n_embd : m->n_embd, p->output, out);
}

void pricing_likely(const struct pricing *p, uint32_t graph_rows, uint32_t rows,
	bool extended, struct price *out)
{
	uint32_t n = p->as ? p->as->n_vocab : p->model->n_vocab;
	uint32_t k = p->as ? p->as->n_embd : p->model->n_embd;
	struct price part;

	if (p->by_cpu) {
		pricing_logits(p, rows, out);
		price_top(p->soc, rows, n, 1, &part);
		price_add(out, &part);
		return;
	}
	price_request(p->soc, out);
	price_rows(p->soc, PRICE_NORM, graph_rows, k, &part);
	price_add(out, &part);
	if (extended) {
		price_dma(p->soc, k * sizeof(float), &part);
		price_add(out, &part);
	}
	if (p->precision == WIRE_INT8 && kern_takes_q8(p->output_tiles)) {
		price_rows(p->soc, PRICE_QUANTIZE, graph_rows, k, &part);
		price_join(p->soc, &part);
		price_add(out, &part);
	}
	if (price_likely(p->soc, graph_rows, rows, n, align_up(k, TILE),
		    price_type(p->output_tiles),
		    p->precision == WIRE_NPU ? PRICE_EXP_TABLE : PRICE_EXP_F32,
		    &part))
		return;
	price_join(p->soc, &part);
	price_add(out, &part);
}

void pricing_refresh(const struct pricing *p, uint32_t rows, uint32_t longest,
	bool maps, struct price *out)
{
	const struct visibility_piece all = { rows, longest };
	const struct price_batch batch = { rows, rows, &all, 1, false };

	cpu_layers(p, (struct share){ 0, p->layers }, &batch, maps, out);
}

void pricing_kv_copy(const struct pricing *p, uint64_t positions,
	uint32_t layers, struct price *out)
{
	const struct model *m = p->model;
	uint64_t kv = p->as ? (uint64_t)p->as->n_kv_head * p->as->head_dim
			    : (uint64_t)m->n_kv_head * m->head_dim;
	uint64_t bytes = 2 *
		align_up(kv * wire_kv_elt(p->precision), COHERENCE_LINE) *
		(stands_for(p, layers) - stands_for(p, 0));

	/* factor 2: each byte is read and written */
	price_cpu(p->soc, 2 * positions * bytes, 0, out);
}
