#include "device/graph.h"

#include "base/checked.h"
#include "base/live_range.h"
#include "device/exec.h"
#include "device/graph_plan.h"
#include "device/picks.h"
#include "tensor/dtype.h"
#include "tensor/kern.h"
#include "tensor/tile.h"
#include "tensor/visibility.h"

#include <stdlib.h>
#include <string.h>

/* largest number of operators in a layer or in an output graph */
#define OPS_A_LAYER 24

/* largest number of outputs in a block of OP_LIKELY */
#define BLOCK 256

struct wire_tensor graph_tensor(const void *msg, uint32_t l, unsigned i)
{
	const uint8_t *p = msg;
	struct wire_tensor t;

	p += sizeof(struct wire_graph_load);
	memcpy(&t, p + (l * WIRE_T_COUNT + i) * sizeof(t), sizeof(t));
	return t;
}

struct wire_output graph_output(const void *msg)
{
	struct wire_output out = { 0 };
	struct wire_graph_load g;

	memcpy(&g, msg, sizeof(g));
	if (!g.n_layers)
		memcpy(&out, (const uint8_t *)msg + sizeof(g), sizeof(out));
	return out;
}

size_t graph_plan_bytes(const struct wire_graph_load *g)
{
	size_t layers = g->n_layers ? g->n_layers : 1;

	return sizeof(struct graph) + layers * OPS_A_LAYER * sizeof(struct op);
}

/* Returns the number of outputs (rows of *w) in a block of OP_LIKELY. With any
 * number of threads, the weights of a block fit into a thread's share of the
 * TCM (on-chip memory), unless a single strip (32 outputs) does not fit. */
static uint32_t block_outputs(const struct wire_tensor *w)
{
	bool tiled = tile_info(w->type);
	size_t bytes = tiled ? tile_strip_bytes(w->type, w->cols)
			     : dtype_row_bytes(w->type, w->cols);
	uint32_t unit = tiled ? TILE : 1;
	size_t n = exec_slice(EXEC_MAX_THREADS) / bytes * unit;

	n = n < BLOCK ? n : BLOCK;
	return n < unit ? unit : (uint32_t)n;
}

/* ---- layout of scratch memory -------------------------------------------- */

static size_t take(size_t *total, size_t bytes)
{
	size_t at = *total;

	*total += align_up(bytes, COHERENCE_LINE);
	return at;
}

static size_t max(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * Results that are needed only for a few launches (groups of fused operators)
 * share bytes of scratch. k and v are no longer needed when attention begins,
 * because attention reads keys and values from the KV cache.
 */
static void place_results(
	struct graph_layout *at, const struct wire_model *m, size_t rows)
{
	size_t width = rows * sizeof(float);
	size_t q = (size_t)m->n_head * m->head_dim * width;
	size_t kv = (size_t)m->n_kv_head * m->head_dim * width;
	uint32_t n_ff = (uint32_t)max(m->n_ff, m->n_shared);
	size_t ff = n_ff * width;
	size_t picked = m->n_expert ? m->n_embd * width : 0;
	size_t picked_q8 = m->n_expert && m->precision == WIRE_INT8
		? rows * kern_q8_bytes((uint32_t)max(m->n_embd, n_ff)) +
			KERN_Q8_GAP
		: 0;
	struct live_range r[] = {
		{ PRICE_PROJECT, PRICE_ATTEND, q, 0 },
		{ PRICE_ATTEND, PRICE_OUTPUT, q, 0 },
		{ PRICE_PROJECT, PRICE_PROJECT, kv, 0 },
		{ PRICE_PROJECT, PRICE_PROJECT, kv, 0 },
		{ PRICE_WIDEN, PRICE_NARROW, ff, 0 },
		{ PRICE_WIDEN, PRICE_ACTIVATE, ff, 0 },
		{ PRICE_WIDEN, PRICE_WIDEN, m->n_expert * width, 0 },
		{ PRICE_WIDEN, PRICE_WIDEN, picked, 0 },
		{ PRICE_WIDEN, PRICE_NARROW, picked_q8, 0 },
	};
	size_t *const place[] = { &at->q, &at->a, &at->k, &at->v, &at->gate,
		&at->up, &at->router, &at->picked, &at->picked_q8 };
	size_t begin = take(
		&at->total, live_range_place(r, ARRAY_LEN(r), COHERENCE_LINE));

	for (unsigned i = 0; i < ARRAY_LEN(r); i++)
		*place[i] = begin + r[i].at;
}

void graph_layout(const struct wire_graph_load *g,
	const struct wire_output *out, unsigned threads,
	struct graph_layout *at)
{
	const struct wire_model *m = &g->model;
	size_t rows = g->rows, q = (size_t)m->n_head * m->head_dim;
	size_t f = sizeof(float), picks = rows * m->n_used;
	uint32_t widest =
		(uint32_t)max(max(m->n_embd, q), max(m->n_ff, m->n_shared));
	size_t attend =
		kern_attend_scratch(m->n_head / m->n_kv_head, m->head_dim);

	memset(at, 0, sizeof(*at));
	at->row = take(&at->total, rows * sizeof(struct wire_row));
	at->span = take(&at->total, WIRE_MAX_SPANS * sizeof(struct wire_span));
	at->mask = take(&at->total, rows * (WIRE_MAX_ROWS / 8));
	at->visibility = take(&at->total, rows * sizeof(struct row_visibility));
	at->piece =
		take(&at->total, 2 * rows * sizeof(struct visibility_piece));
	at->order = take(&at->total, rows * sizeof(uint32_t));
	at->seen = take(&at->total, m->kv_slots / 8 + 8);
	at->written = take(&at->total, m->kv_slots / 8 + 8);
	at->cos = take(&at->total, rows * (m->n_rot / 2) * f);
	at->sin = take(&at->total, rows * (m->n_rot / 2) * f);
	at->x = take(&at->total, rows * m->n_embd * f);
	at->h = take(&at->total, rows * m->n_embd * f);
	place_results(at, m, rows);
	if (m->precision == WIRE_INT8)
		at->q8 = take(
			&at->total, rows * kern_q8_bytes(widest) + KERN_Q8_GAP);
	/* memory for the picks (choices of experts) of rows, and for the
	 * outputs of experts */
	if (m->n_expert) {
		at->pick = take(&at->total, picks * sizeof(struct wire_pick));
		at->made = take(&at->total, picks * sizeof(struct pick_made));
		at->by_expert = take(&at->total, picks * sizeof(uint32_t));
		at->expert_first = take(
			&at->total, (WIRE_MAX_REFS + 1) * sizeof(uint32_t));
		at->y = take(&at->total, picks * m->n_embd * f);
	}
	/* bytes of kernel scratch for a thread: enough for any kernel */
	at->thread_bytes = align_up(
		max(kern_multiply_scratch(widest), attend * f), COHERENCE_LINE);
	/* for an output graph: memory for the likeliest outputs, and for a
	 * block of outputs per thread */
	if (out->top_k) {
		uint32_t block = block_outputs(&out->matrix);
		size_t blocks = (out->matrix.rows + block - 1) / block;
		size_t likely = rows * out->top_k * sizeof(struct wire_likely);

		at->likely = take(&at->total, likely);
		at->likely_thread = take(&at->total, threads * likely);
		at->sum = take(
			&at->total, blocks * rows * sizeof(struct graph_sum));
		at->product = at->thread_bytes;
		at->thread_bytes += align_up(rows * block * f, COHERENCE_LINE);
	}
	at->thread = take(&at->total, at->thread_bytes * threads);
}

/* ---- the list of operators ----------------------------------------------- */

struct build {
	struct graph *g;
	const void *msg;
	uint32_t layer;
	/* The launch (fused operators, which a phone starts together) to which
	 * the next operators belong, and the offset of the quantized rows that
	 * these operators use. */
	enum price_launch launch;
	size_t q8;
};

/* Add an operator whose input rows and output rows have n values each. The
 * caller then changes the members that need other values. */
static struct op *add(struct build *b, enum op_kind kind, const char *name,
	size_t in, size_t out, uint32_t n)
{
	struct op *op = &b->g->op[b->g->n_ops++];

	*op = (struct op){
		.kind = kind,
		.name = name,
		.layer = b->layer,
		.launch = b->launch,
		/* A gather costs nothing (cost.c), so the operator after a
		 * gather counts as the first of its launch. */
		.joins = op > b->g->op && op[-1].launch == b->launch &&
			op[-1].kind != OP_GATHER,
		.in = in,
		.out = out,
		.n = n,
		.k = n,
	};
	return op;
}

static struct op *add_norm(
	struct build *b, enum wire_layer_tensor w, size_t out)
{
	struct wire_tensor t = graph_tensor(b->msg, b->layer, w);
	struct op *op = add(
		b, OP_RMSNORM, graph_tensor_name(w), b->g->at.x, out, t.cols);

	op->w = t;
	return op;
}

static bool is_int8(const struct build *b, struct wire_tensor w)
{
	return b->g->model.precision == WIRE_INT8 && kern_takes_q8(w.type);
}

/* The bit that stands for a tensor in a set of tensors (unsigned). */
#define BIT(tensor) (1u << (tensor))

/* The output of operator `from` will be multiplied by the matrices of the set
 * `matrices`. Quantize the output if one of the matrices needs int8 rows, and
 * round the output to fp16 if one of them does not. */
static void add_operand(struct build *b, struct op *from, unsigned matrices)
{
	bool quantize = false;

	for (unsigned w = 0; w < WIRE_T_COUNT; w++) {
		if (!(matrices & BIT(w)))
			continue;
		if (is_int8(b, graph_tensor(b->msg, b->layer, w)))
			quantize = true;
		else
			from->round = true;
	}
	if (quantize)
		add(b, OP_QUANTIZE, "quantize", from->out, b->q8, from->n);
}

/* Add the product with matrix w, for those rows of w that the graph's part of
 * the layer contains. Returns NULL if the part contains no row of w. */
static struct op *add_matmul(struct build *b, enum wire_layer_tensor w,
	int bias, size_t in, size_t out)
{
	uint32_t rows, first;
	struct op *op;

	if (!graph_part_rows(&b->g->part, &b->g->model, w, &first, &rows))
		return NULL;
	op = add(b, OP_MATMUL, graph_tensor_name(w), in, out, rows);
	op->w = graph_tensor(b->msg, b->layer, w);
	op->first = first;
	op->k = op->w.cols;
	op->int8 = is_int8(b, op->w);
	if (op->int8)
		op->in = b->q8;
	if (bias >= 0)
		op->bias = graph_tensor(b->msg, b->layer, (unsigned)bias);
	return op;
}

/* Add an operator that changes rows in place. A row has `heads` heads. */
static struct op *add_heads(struct build *b, enum op_kind kind,
	const char *name, struct wire_tensor w, size_t at, uint32_t heads)
{
	struct op *op =
		add(b, kind, name, at, at, heads * b->g->model.head_dim);

	op->w = w;
	return op;
}

static void plan_attention(struct build *b)
{
	const struct graph_layout *at = &b->g->at;
	const struct wire_model *m = &b->g->model;
	struct wire_tensor qn = graph_tensor(b->msg, b->layer, WIRE_T_Q_NORM);
	struct wire_tensor kn = graph_tensor(b->msg, b->layer, WIRE_T_K_NORM);
	struct wire_tensor none = { 0 };

	b->launch = PRICE_PROJECT;
	add_operand(b, add_norm(b, WIRE_T_ATTN_NORM, at->h),
		BIT(WIRE_T_Q) | BIT(WIRE_T_K) | BIT(WIRE_T_V));
	add_matmul(b, WIRE_T_Q, WIRE_T_Q_BIAS, at->h, at->q);
	add_matmul(b, WIRE_T_K, WIRE_T_K_BIAS, at->h, at->k);
	add_matmul(b, WIRE_T_V, WIRE_T_V_BIAS, at->h, at->v);
	if (qn.rows)
		add_heads(b, OP_HEAD_NORM, "q_norm", qn, at->q, m->n_head);
	if (kn.rows)
		add_heads(b, OP_HEAD_NORM, "k_norm", kn, at->k, m->n_kv_head);
	/* The ROPE operators are added even if n_rot is 0, because q rope also
	 * rounds q for attention. K and V are rounded when they are stored. */
	add_heads(b, OP_ROPE, "q rope", none, at->q, m->n_head)->round = true;
	add_heads(b, OP_ROPE, "k rope", none, at->k, m->n_kv_head);
	add(b, OP_KV_WRITE, "kv write", at->k, at->v,
		m->n_kv_head * m->head_dim);
	b->launch = PRICE_ATTEND;
	add_operand(b,
		add(b, OP_ATTEND, "attention", at->q, at->a,
			m->n_head * m->head_dim),
		BIT(WIRE_T_O));
	b->launch = PRICE_OUTPUT;
	add_matmul(b, WIRE_T_O, WIRE_T_O_BIAS, at->a, at->h);
	add(b, OP_ADD, "attention add", at->h, at->x, m->n_embd);
}

static void plan_ffn(struct build *b)
{
	const struct graph_layout *at = &b->g->at;
	const struct wire_model *m = &b->g->model;
	uint32_t n, from, rows;

	b->launch = PRICE_WIDEN;
	if (graph_begins(b->g))
		add_operand(b, add_norm(b, WIRE_T_FFN_NORM, at->h),
			BIT(WIRE_T_GATE) | BIT(WIRE_T_UP));
	add_matmul(b, WIRE_T_GATE, -1, at->h, at->gate);
	add_matmul(b, WIRE_T_UP, -1, at->h, at->up);
	/* If this part has the last rows of the matrix `up`, the product with
	 * `up` is complete, and SwiGLU can follow. */
	n = graph_part_rows(&b->g->part, m, WIRE_T_UP, &from, &rows);
	b->launch = PRICE_ACTIVATE;
	if (n && from + n == rows)
		add_operand(b,
			add(b, OP_SWIGLU, "swiglu", at->up, at->gate, m->n_ff),
			BIT(WIRE_T_DOWN));
	b->launch = PRICE_NARROW;
	add_matmul(b, WIRE_T_DOWN, -1, at->gate, at->h);
	if (graph_ends(b->g))
		add(b, OP_ADD, "ffn add", at->h, at->x, m->n_embd);
}

/*
 * The operators after the attention of a layer with experts: the router and the
 * shared expert, if there is one. The normed rows, which the router reads, are
 * rounded or quantized also for the routed experts, whose graphs read them
 * later: the message gives gate and up the types that these matrices have in
 * the expert graphs. The shared expert does not change the normed rows.
 */
static void plan_router(struct build *b)
{
	const struct graph_layout *at = &b->g->at;
	const struct wire_model *m = &b->g->model;
	unsigned readers =
		BIT(WIRE_T_ROUTER) | BIT(WIRE_T_GATE) | BIT(WIRE_T_UP);

	if (m->n_shared)
		readers |= BIT(WIRE_T_SHARED_GATE) | BIT(WIRE_T_SHARED_UP);
	b->launch = PRICE_WIDEN;
	add_operand(b, add_norm(b, WIRE_T_FFN_NORM, at->h), readers);
	add_matmul(b, WIRE_T_ROUTER, -1, at->h, at->router);
	if (!m->n_shared)
		return;
	add_matmul(b, WIRE_T_SHARED_GATE, -1, at->h, at->gate);
	add_matmul(b, WIRE_T_SHARED_UP, -1, at->h, at->up);
	b->launch = PRICE_ACTIVATE;
	b->q8 = at->picked_q8;
	add_operand(b,
		add(b, OP_SWIGLU, "shared swiglu", at->up, at->gate,
			m->n_shared),
		BIT(WIRE_T_SHARED_DOWN));
	b->launch = PRICE_NARROW;
	add_matmul(b, WIRE_T_SHARED_DOWN, -1, at->gate, at->y);
	add(b, OP_FACTOR, "shared factor", at->h, at->y, m->n_embd)->w =
		graph_tensor(b->msg, b->layer, WIRE_T_SHARED_FACTOR);
	add(b, OP_ADD, "shared add", at->y, at->x, m->n_embd);
}

/* Plan the graph of an expert. A graph run executes all operators except
 * "expert sum" once for each of the run's experts, on the rows that picked the
 * expert. Then the layer's final run executes "expert sum" for all rows. */
static void plan_expert(struct build *b)
{
	const struct graph_layout *at = &b->g->at;
	const struct wire_model *m = &b->g->model;
	bool gate8 = is_int8(b, graph_tensor(b->msg, b->layer, WIRE_T_GATE));
	bool up8 = is_int8(b, graph_tensor(b->msg, b->layer, WIRE_T_UP));
	struct op *op;

	b->launch = PRICE_WIDEN;
	b->q8 = at->picked_q8;
	if (!gate8 || !up8)
		add(b, OP_GATHER, "expert rows", at->h, at->picked, m->n_embd);
	if (gate8 || up8)
		add(b, OP_GATHER, "expert rows", at->q8, b->q8,
			(uint32_t)(kern_q8_bytes(m->n_embd) / sizeof(float)));
	add_matmul(b, WIRE_T_GATE, -1, at->picked, at->gate)->name =
		"expert gate";
	add_matmul(b, WIRE_T_UP, -1, at->picked, at->up)->name = "expert up";
	b->launch = PRICE_ACTIVATE;
	add_operand(b,
		add(b, OP_SWIGLU, "expert swiglu", at->up, at->gate, m->n_ff),
		BIT(WIRE_T_DOWN));
	b->launch = PRICE_NARROW;
	op = add_matmul(b, WIRE_T_DOWN, -1, at->gate, at->y);
	op->name = "expert down";
	op->slots = true;
	add(b, OP_SUM_PICKS, "expert sum", at->y, at->x, m->n_embd);
}

/* Plan the operators of an output graph. */
static void plan_output(struct build *b, const struct wire_output *out)
{
	const struct graph_layout *at = &b->g->at;
	bool int8 = is_int8(b, out->matrix);
	struct op *norm, *likely;

	b->launch = PRICE_PROJECT;
	norm = add(b, OP_RMSNORM, "output norm", at->x, at->h, out->norm.cols);
	norm->w = out->norm;
	norm->round = !int8;
	if (int8)
		add(b, OP_QUANTIZE, "quantize", at->h, b->q8, norm->n);
	likely = add(b, OP_LIKELY, "likely", int8 ? b->q8 : at->h, at->likely,
		out->top_k);
	likely->w = out->matrix;
	likely->k = out->matrix.cols;
	likely->int8 = int8;
}

struct graph *graph_build(const void *msg, size_t len, unsigned threads)
{
	const struct wire_output out = graph_output(msg);
	struct wire_graph_load m;
	struct build b = { .msg = msg };
	struct graph *g;

	memcpy(&m, msg, sizeof(m));
	g = calloc(1, graph_plan_bytes(&m));
	if (!g)
		return NULL;
	g->id = m.graph;
	g->rows = m.rows;
	g->first_layer = m.first_layer;
	g->n_layers = m.n_layers;
	g->weights_bytes = m.weights_bytes;
	g->model = m.model;
	g->rope_freq = m.rope_freq;
	g->part = graph_part(msg, len);
	g->plan_bytes = graph_plan_bytes(&m);
	g->kv_bytes = ((uint64_t)m.first_layer + m.n_layers) * 2 *
		m.model.kv_slots * m.model.kv_stride;
	graph_layout(&m, &out, threads, &g->at);
	b.g = g;
	b.q8 = g->at.q8;
	if (out.top_k) {
		g->top_k = out.top_k;
		g->block = block_outputs(&out.matrix);
		plan_output(&b, &out);
	}
	for (b.layer = 0; b.layer < m.n_layers; b.layer++) {
		if (graph_begins(g))
			plan_attention(&b);
		if (graph_routes(g))
			plan_router(&b);
		else if (graph_is_expert(g))
			plan_expert(&b);
		else
			plan_ffn(&b);
	}
	return g;
}
