#include "device/cost.h"

#include "base/checked.h"
#include "device/graph.h"
#include "device/rowset.h"
#include "ipc/channel.h"
#include "ipc/wire.h"
#include "shm/coherence/tandem_coherence.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_layer.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <stddef.h>

static enum price_exp exp_of(const struct graph *g)
{
	return g->model.precision == WIRE_NPU ? PRICE_EXP_TABLE : PRICE_EXP_F32;
}

void cost_attention(const struct soc *soc, const struct graph *g,
	const struct rowset *s, bool apart, struct visibility_piece *room,
	struct price *out)
{
	const struct wire_model *m = &g->model;
	const struct price_heads heads = { m->n_head, m->n_kv_head,
		(uint32_t)align_up(m->head_dim, TILE), exp_of(g) };

	price_visibility(soc, &heads, g->rows, s->rows, room,
		rowset_pieces(s, apart, room), out);
}

void cost_op(const struct soc *soc, const struct graph *g, uint32_t padded,
	uint32_t rows, const struct op *op, const struct price *attention,
	struct price *sum)
{
	struct price p;
	int ret = 0;

	switch (op->kind) {
	case OP_RMSNORM:
	case OP_HEAD_NORM:
	/* OP_FACTOR (of a shared expert) costs as much as a norm: both compute
	 * a sum of products, then one product for each value. */
	case OP_FACTOR:
		ret = price_rows(soc, PRICE_NORM, padded, op->n, &p);
		break;
	case OP_MATMUL:
		ret = price_matmul(soc, padded, op->w.rows,
			align_up(op->k, TILE),
			price_type((enum dtype)op->w.type), &p);
		price_matmul_rows(soc, rows, op->w.rows, op->k, &p);
		break;
	case OP_ROPE:
		ret = price_rows(soc, PRICE_ROPE, padded, op->n, &p);
		break;
	case OP_KV_WRITE: /* 2 * n values: n of K and n of V */
		ret = price_rows(
			soc, PRICE_KV_WRITE, padded, 2 * (uint64_t)op->n, &p);
		break;
	case OP_ATTEND:
		p = *attention;
		break;
	case OP_SWIGLU:
		ret = price_rows(soc, PRICE_SWIGLU, padded, op->n, &p);
		break;
	case OP_QUANTIZE:
		ret = price_rows(soc, PRICE_QUANTIZE, padded, op->n, &p);
		break;
	case OP_ADD:
		ret = price_rows(soc, PRICE_ADD, padded, op->n, &p);
		break;
	case OP_LIKELY:
		ret = price_likely(soc, padded, rows, op->w.rows,
			align_up(op->k, TILE),
			price_type((enum dtype)op->w.type), exp_of(g), &p);
		break;
	case OP_GATHER:
		/* The copy of the rows that picked an expert costs nothing
		 * extra: the matrix product that follows converts the rows to
		 * tiles in any case, at a cost that does not depend on where
		 * the rows lie in memory. */
		return;
	case OP_SUM_PICKS:
		ret = price_rows(soc, PRICE_ADD,
			(uint64_t)padded * g->model.n_used, op->n, &p);
		break;
	}
	if (ret)
		return;
	if (op->joins)
		price_join(soc, &p);
	price_add(sum, &p);
}

/* Bytes of the weight vector (norm or bias) that the operator reads, or 0. */
static uint64_t vector_bytes(const struct op *op)
{
	switch (op->kind) {
	case OP_RMSNORM:
	case OP_HEAD_NORM:
	case OP_FACTOR:
		return op->w.cols * sizeof(float);
	case OP_MATMUL:
		return op->bias.rows ? op->n * sizeof(float) : 0;
	default:
		return 0;
	}
}

void cost_extended(
	const struct soc *soc, const struct graph *g, struct price *sum)
{
	uint64_t bytes =
		graph_is_expert(g) ? 0 : g->model.n_rot / 2 * sizeof(float);
	struct price p;

	for (unsigned i = 0; i <= g->n_ops; i++) {
		if (bytes) {
			price_dma(soc, bytes, &p);
			price_add(sum, &p);
		}
		bytes = i < g->n_ops ? vector_bytes(&g->op[i]) : 0;
	}
}

void cost_request(
	const struct soc *soc, const struct wire_done *done, struct price *sum)
{
	uint64_t lines =
		done->counters.invalidated_lines + done->counters.cleaned_lines;
	uint64_t whole = done->counters.whole_calls * (uint64_t)soc->l2_bytes;
	struct price p;

	price_request(soc, &p);
	price_add(sum, &p);
	price_maintenance(soc, lines * COHERENCE_LINE + whole, &p);
	price_add(sum, &p);
}

void cost_rings(const struct packet *p, bool priced, bool two_levels,
	struct wire_done *done)
{
	struct wire_counters *sum = &done->counters;
	/* The zero bytes at the end of a completion are not sent, so their
	 * cache lines are not counted. */
	size_t sent = priced ? offsetof(struct wire_done, text)
			     : offsetof(struct wire_done, price);

	if (two_levels) {
		sum->whole_calls += PACKET_WHOLE_CALLS;
		return;
	}
	sum->invalidated_lines += packet_invalidated_lines(p->n_refs, p->len);
	sum->cleaned_lines += packet_cleaned_lines(sent);
}
