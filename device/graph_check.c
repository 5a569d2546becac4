/*
 * Implements graph_check (device/graph.h): checks every field of a GRAPH_LOAD
 * message once, in an order in which later checks can rely on earlier checks.
 */
#include "device/graph_plan.h"

#include "base/checked.h"
#include "base/err.h"
#include "shm/buffer.h"
#include "tensor/dtype.h"
#include "tensor/tile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const tensor_name[WIRE_T_COUNT] = {
	[WIRE_T_ATTN_NORM] = "attn_norm",
	[WIRE_T_Q] = "q",
	[WIRE_T_K] = "k",
	[WIRE_T_V] = "v",
	[WIRE_T_O] = "o",
	[WIRE_T_Q_BIAS] = "q_bias",
	[WIRE_T_K_BIAS] = "k_bias",
	[WIRE_T_V_BIAS] = "v_bias",
	[WIRE_T_O_BIAS] = "o_bias",
	[WIRE_T_Q_NORM] = "q_norm",
	[WIRE_T_K_NORM] = "k_norm",
	[WIRE_T_FFN_NORM] = "ffn_norm",
	[WIRE_T_ROUTER] = "router",
	[WIRE_T_SHARED_FACTOR] = "shared factor",
	[WIRE_T_SHARED_GATE] = "shared gate",
	[WIRE_T_SHARED_UP] = "shared up",
	[WIRE_T_SHARED_DOWN] = "shared down",
	[WIRE_T_GATE] = "gate",
	[WIRE_T_UP] = "up",
	[WIRE_T_DOWN] = "down",
};

const char *graph_tensor_name(unsigned tensor)
{
	return tensor < WIRE_T_COUNT ? tensor_name[tensor] : "?";
}

static int in_range(const char *field, uint32_t v, uint32_t min, uint32_t max,
	struct err *e)
{
	if (v >= min && v <= max)
		return 0;
	return err_set(e, EINVAL, "graph load: %s is %u, must be %u to %u",
		field, v, min, max);
}

static int check_model(const struct wire_model *m, struct err *e)
{
	const struct {
		const char *name;
		uint32_t v;
	} dim[] = {
		{ "n_embd", m->n_embd },
		{ "n_head", m->n_head },
		{ "n_kv_head", m->n_kv_head },
		{ "head_dim", m->head_dim },
		{ "n_ff", m->n_ff },
	};
	uint32_t most;

	for (size_t i = 0; i < ARRAY_LEN(dim); i++)
		if (in_range(dim[i].name, dim[i].v, 1, GRAPH_MAX_DIM, e))
			return -EINVAL;
	if (m->n_head % m->n_kv_head)
		return err_set(e, EINVAL,
			"graph load: n_head %u is not a multiple of n_kv_head "
			"%u",
			m->n_head, m->n_kv_head);
	if ((uint64_t)m->n_head * m->head_dim > GRAPH_MAX_DIM)
		return err_set(e, EINVAL,
			"graph load: n_head %u times head_dim %u is above %u",
			m->n_head, m->head_dim, GRAPH_MAX_DIM);
	if (m->n_rot % 2 || m->n_rot > m->head_dim)
		return err_set(e, EINVAL,
			"graph load: n_rot %u is odd or above head_dim %u",
			m->n_rot, m->head_dim);
	if (in_range("rope_neox", m->rope_neox, 0, 1, e) ||
		in_range("precision", m->precision, 0, WIRE_PRECISION_COUNT - 1,
			e))
		return -EINVAL;
	if (!isfinite(m->norm_eps) || m->norm_eps < 0)
		return err_set(e, EINVAL,
			"graph load: norm_eps %g is negative or not finite",
			(double)m->norm_eps);
	if (!isfinite(m->attn_scale))
		return err_set(
			e, EINVAL, "graph load: attn_scale is not finite");
	if (in_range("n_expert", m->n_expert, 0, WIRE_MAX_EXPERTS, e))
		return -EINVAL;
	most = m->n_expert < WIRE_MAX_USED ? m->n_expert : WIRE_MAX_USED;
	if (in_range("n_used", m->n_used, m->n_expert ? 1 : 0, most, e))
		return -EINVAL;
	most = m->n_expert ? GRAPH_MAX_DIM : 0;
	return in_range("n_shared", m->n_shared, 0, most, e);
}

static int check_kv(const struct wire_graph_load *g, struct err *e)
{
	const struct wire_model *m = &g->model;
	size_t slot =
		(size_t)m->n_kv_head * m->head_dim * wire_kv_elt(m->precision);
	size_t bytes;

	if (in_range(
		    "kv_slots", m->kv_slots, 1, BUFFER_MAX / COHERENCE_LINE, e))
		return -EINVAL;
	if (m->kv_stride % COHERENCE_LINE || m->kv_stride < slot)
		return err_set(e, EINVAL,
			"graph load: kv_stride %u is no multiple of %d or "
			"below the %zu bytes of a slot",
			m->kv_stride, COHERENCE_LINE, slot);
	if (size_mul(&bytes, (size_t)g->first_layer + g->n_layers, 2) ||
		size_mul(&bytes, bytes, m->kv_slots) ||
		size_mul(&bytes, bytes, m->kv_stride) || bytes > BUFFER_MAX)
		return err_set(e, EINVAL,
			"graph load: first_layer %u, n_layers %u, kv_slots %u "
			"and kv_stride %u make a KV cache above %zu bytes",
			g->first_layer, g->n_layers, m->kv_slots, m->kv_stride,
			BUFFER_MAX);
	return 0;
}

struct shape {
	uint32_t rows, cols;
	bool vector, optional;
	/* a second allowed number of columns; 0: only `cols` is allowed */
	uint32_t wide;
};

static struct shape shape_of(const struct wire_model *m, unsigned tensor)
{
	uint32_t q = m->n_head * m->head_dim, kv = m->n_kv_head * m->head_dim;
	const bool shared = m->n_shared;

	switch (tensor) {
	case WIRE_T_Q:
		return (struct shape){ q, m->n_embd, false, false };
	case WIRE_T_K:
	case WIRE_T_V:
		return (struct shape){ kv, m->n_embd, false, false };
	case WIRE_T_O:
		return (struct shape){ m->n_embd, q, false, false };
	case WIRE_T_ROUTER:
		return (struct shape){ m->n_expert, m->n_embd, false,
			!m->n_expert };
	case WIRE_T_SHARED_FACTOR:
		return (struct shape){ shared, m->n_embd, true, !shared };
	case WIRE_T_SHARED_GATE:
	case WIRE_T_SHARED_UP:
		return (struct shape){ m->n_shared, m->n_embd, false, !shared };
	case WIRE_T_SHARED_DOWN:
		return (struct shape){ shared ? m->n_embd : 0, m->n_shared,
			false, !shared };
	case WIRE_T_GATE:
	case WIRE_T_UP:
		return (struct shape){ m->n_ff, m->n_embd, false, false };
	case WIRE_T_DOWN:
		return (struct shape){ m->n_embd, m->n_ff, false, false };
	case WIRE_T_Q_BIAS:
		return (struct shape){ 1, q, true, true };
	case WIRE_T_K_BIAS:
	case WIRE_T_V_BIAS:
		return (struct shape){ 1, kv, true, true };
	case WIRE_T_O_BIAS:
		return (struct shape){ 1, m->n_embd, true, true };
	case WIRE_T_Q_NORM:
		return (struct shape){ 1, m->head_dim, true, true, q };
	case WIRE_T_K_NORM:
		return (struct shape){ 1, m->head_dim, true, true, kv };
	default: /* WIRE_T_ATTN_NORM, WIRE_T_FFN_NORM */
		return (struct shape){ 1, m->n_embd, true, false };
	}
}

/* ---- the part of a layer that the graph contains ------------------------- */

struct wire_part graph_part(const void *msg, size_t len)
{
	struct wire_part p = { .end = WIRE_T_COUNT };

	if (!graph_output(msg).top_k &&
		(len - sizeof(struct wire_graph_load)) %
			sizeof(struct wire_tensor[WIRE_T_COUNT]))
		memcpy(&p, (const uint8_t *)msg + len - sizeof(p), sizeof(p));
	return p;
}

uint32_t graph_part_rows(const struct wire_part *p, const struct wire_model *m,
	unsigned tensor, uint32_t *from, uint32_t *rows)
{
	uint32_t to;

	*rows = to = shape_of(m, tensor).rows;
	*from = tensor == p->first ? p->first_row : 0;
	if (tensor == p->end)
		to = p->end_row;
	return tensor < p->first || tensor > p->end ? 0 : to - *from;
}

/* Whether the graph of a part of a layer may begin or end before this row of
 * this tensor. */
static bool may_split(const struct wire_model *m, uint32_t tensor, uint32_t row)
{
	return tensor >= WIRE_T_GATE && tensor < WIRE_T_COUNT &&
		row % TILE == 0 && row < shape_of(m, tensor).rows;
}

static int check_part(const struct wire_graph_load *g,
	const struct wire_part *p, struct err *e)
{
	bool begins = !p->first && !p->first_row;
	bool ends = p->end == WIRE_T_COUNT && !p->end_row;
	bool routes = begins && p->end == WIRE_T_GATE && !p->end_row;
	bool expert = p->first == WIRE_T_GATE && !p->first_row && ends;

	if (g->model.n_expert && !routes && !expert)
		return err_set(e, EINVAL,
			"graph load: with n_expert %u, a graph must be one "
			"of the two parts of a layer: from row 0 of tensor 0 "
			"to row 0 of gate, or from there to the end of the "
			"layer",
			g->model.n_expert);
	if ((begins || may_split(&g->model, p->first, p->first_row)) &&
		(ends || may_split(&g->model, p->end, p->end_row)) &&
		(p->first < p->end ||
			(p->first == p->end && p->first_row < p->end_row)))
		return 0;
	return err_set(e, EINVAL,
		"graph load: part from row %u of tensor %u to row %u of "
		"tensor %u: the part is empty, or splits the layer outside "
		"gate, up and down or inside a tile of rows",
		p->first_row, p->first, p->end_row, p->end);
}

/* ---- tensors and whole messages ------------------------------------------ */

static int check_tensor(const struct wire_tensor *t, const struct shape *s,
	uint32_t weights_bytes, size_t slice, struct err *e)
{
	const struct dtype_info *type = dtype_info(t->type);
	const struct tile_info *tile = tile_info(t->type);
	uint64_t bytes;
	size_t part;

	if (!t->rows && s->optional)
		return 0;
	if (!t->rows && s->rows)
		return err_set(
			e, EINVAL, "rows is 0, but this matrix is required");
	if (!type && !tile)
		return err_set(e, EINVAL, "type %u is unknown", t->type);
	if (!t->rows)
		return 0;
	if (s->vector && t->type != DTYPE_F32)
		return err_set(e, EINVAL, "type is %s, must be f32",
			type ? type->name : tile->name);
	if (t->rows != s->rows ||
		(t->cols != s->cols && (!s->wide || t->cols != s->wide)))
		return err_set(e, EINVAL,
			"rows %u and cols %u, must be %u and %u", t->rows,
			t->cols, s->rows, s->cols);
	/* The bytes that must fit into a thread's share of the TCM (on-chip
	 * memory): one row or, if the matrix is in tiles, one strip (32 rows).
	 */
	part = type ? dtype_row_bytes(t->type, t->cols)
		    : tile_strip_bytes(t->type, t->cols);
	if (!part)
		return err_set(e, EINVAL,
			"cols is %u, not a multiple of %u, the block "
			"size of %s",
			t->cols, type ? type->block : TILE,
			type ? type->name : tile->name);
	if (t->offset % COHERENCE_LINE)
		return err_set(e, EINVAL, "offset %u is not a multiple of %d",
			t->offset, COHERENCE_LINE);
	bytes = (uint64_t)part * (type ? t->rows : (t->rows + TILE - 1) / TILE);
	if (!range_within(t->offset, bytes, weights_bytes))
		return err_set(e, EINVAL,
			"offset %u and %" PRIu64
			" bytes exceed the graph's weights_bytes %u",
			t->offset, bytes, weights_bytes);
	if (part > slice)
		return err_set(e, E2BIG,
			"a %s of %zu bytes exceeds a worker's %zu bytes of "
			"local memory (TCM); use fewer threads",
			type ? "row" : "strip", part, slice);
	return 0;
}

static int check_tensors(const struct wire_graph_load *g,
	const struct wire_part *p, const void *msg, size_t slice, struct err *e)
{
	const struct wire_model *m = &g->model;
	struct shape freq = { 1, m->n_rot / 2, true,
		m->n_rot == 0 || p->first != 0 };

	if (check_tensor(&g->rope_freq, &freq, g->weights_bytes, slice, e))
		return err_in(e, "graph load: rope_freq");
	for (uint32_t l = 0; l < g->n_layers; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			struct wire_tensor t = graph_tensor(msg, l, i);
			struct shape s = shape_of(m, i);
			uint32_t from, rows;

			s.rows = graph_part_rows(p, m, i, &from, &rows);
			if (check_tensor(&t, &s, g->weights_bytes, slice, e))
				return err_in(e, "graph load: layer %u, %s", l,
					tensor_name[i]);
		}
	}
	return 0;
}

static int check_output(const struct wire_graph_load *g,
	const struct wire_output *out, size_t slice, struct err *e)
{
	const struct shape norm = { 1, g->model.n_embd, true, false };
	const struct shape matrix = { out->matrix.rows, g->model.n_embd, false,
		false };

	if (in_range("top_k", out->top_k, 1, WIRE_MAX_TOP_K, e) ||
		in_range("n_vocab", out->matrix.rows, 1, GRAPH_MAX_DIM, e))
		return -EINVAL;
	if (check_tensor(&out->norm, &norm, g->weights_bytes, slice, e))
		return err_in(e, "graph load: output norm");
	if (check_tensor(&out->matrix, &matrix, g->weights_bytes, slice, e))
		return err_in(e, "graph load: output matrix");
	return 0;
}

int graph_check(const void *msg, size_t len, const struct graph_limits *limits,
	struct graph_need *need, struct err *e)
{
	struct wire_graph_load g;
	struct graph_layout at;
	struct wire_output out;
	struct wire_part part;
	size_t want, arena, plans;
	int ret;

	if (len < sizeof(g))
		return err_set(e, EMSGSIZE,
			"graph load: the message has %zu bytes, but its fixed "
			"part alone needs %zu",
			len, sizeof(g));
	memcpy(&g, msg, sizeof(g));
	if (in_range("rows", g.rows, 1, WIRE_MAX_ROWS, e) ||
		in_range("n_layers", g.n_layers, 0, WIRE_MAX_LAYERS, e))
		return -EINVAL;
	want = sizeof(g) +
		(size_t)g.n_layers * WIRE_T_COUNT * sizeof(struct wire_tensor) +
		(g.n_layers ? 0 : sizeof(out));
	if (len != want &&
		(g.n_layers != 1 || len != want + sizeof(struct wire_part)))
		return err_set(e, EMSGSIZE,
			"graph load: with n_layers %u the message must have "
			"%zu bytes, not %zu",
			g.n_layers, want, len);
	if ((ret = check_model(&g.model, e)) || (ret = check_kv(&g, e)))
		return ret;
	out = graph_output(msg);
	if (!g.n_layers) {
		ret = check_output(&g, &out, limits->tcm_slice, e);
	} else {
		part = graph_part(msg, len);
		ret = check_part(&g, &part, e);
		if (!ret)
			ret = check_tensors(
				&g, &part, msg, limits->tcm_slice, e);
	}
	if (ret)
		return ret;

	graph_layout(&g, &out, limits->threads, &at);
	need->plan_bytes = graph_plan_bytes(&g);
	need->arena_bytes = at.total;
	need->weights_bytes = g.weights_bytes;
	arena = at.total > limits->arena_bytes ? at.total : limits->arena_bytes;
	plans = limits->plans_bytes + need->plan_bytes;
	if (arena + plans > GRAPH_MAX_MEMORY)
		return err_set(e, ENOMEM,
			"graph load: %zu bytes of scratch memory and %zu "
			"bytes of execution plans exceed the limit of %zu "
			"bytes; use fewer rows or KV slots",
			arena, plans, GRAPH_MAX_MEMORY);
	return 0;
}
