#include "host/session/host_layers.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/workers.h"
#include "host/memory/weights.h"
#include "ipc/wire.h"
#include "tensor/kern.h"
#include "tensor/layout.h"
#include "tensor/softmax.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN   64
#define NO_BIAS WIRE_T_COUNT
/* the largest number of matrices that are multiplied in one parallel loop */
#define MATRICES 3

/* A matrix product for all rows: y = x * (transposed w) + bias. */
struct product {
	enum wire_layer_tensor w, bias;
	const float *x;
	float *y;
};

struct host_layers {
	struct wire_model m;
	const struct kern *kern;
	struct workers *workers;
	const struct block *block;
	uint32_t n_blocks, n_layer;
	/* table of exponentials for softmax, made by kern_exp2_table; NULL if
	 * the precision does not need the table */
	uint16_t *exp2;

	/* Scratch memory for rows_room rows, allocated as one piece. */
	uint8_t *arena;
	uint32_t rows_room, slots_room;
	/* [rows][n_rot / 2] cosines and sines of the positions' rotation angles
	 * (RoPE) */
	float *cos, *sin;
	/* [rows][n_embd] normalized input of a matrix product, or output of a
	 * matrix product */
	float *h;
	/* [rows][n_head * head_dim] q: queries. a: outputs of attention. */
	float *q, *a;
	float *k, *v; /* [rows][n_kv_head * head_dim] keys and values */
	/* [rows][n_ff] activations of the feed-forward network */
	float *gate, *up;
	uint8_t *q8; /* [rows] quantized rows of kern_q8_bytes() bytes each */
	/* [slots] the numbers 0, 1, 2 ..., a list of cache slots for the
	 * kernels */
	uint32_t *slot;
	uint8_t *thread; /* [threads] scratch memory of thread_bytes each */
	size_t thread_bytes;

	/* The rows and the layer that are being computed. */
	const struct host_rows *rows;
	uint32_t layer;
	const struct wire_tensor *tensor; /* tensors of the current layer */
	const uint8_t *weights;
	const struct product *product;
	/* how each product's matrix is divided, in units of TILE outputs */
	struct kern_parts parts[MATRICES];
	/* number of rows that one attention work item computes */
	uint32_t together;
};

static uint32_t q_dim(const struct host_layers *l)
{
	return l->m.n_head * l->m.head_dim;
}

static uint32_t kv_dim(const struct host_layers *l)
{
	return l->m.n_kv_head * l->m.head_dim;
}

/* ---- opening ------------------------------------------------------------- */

int host_layers_open(struct host_layers **out, const struct wire_model *m,
	const struct block *block, uint32_t n_blocks, unsigned threads,
	struct err *e)
{
	struct host_layers *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return err_set(e, ENOMEM,
			"no memory for layers that the host computes");
	l->m = *m;
	l->block = block;
	l->n_blocks = n_blocks;
	for (uint32_t b = 0; b < n_blocks; b++)
		l->n_layer += block[b].n_layers;
	ret = kern_select(&l->kern, e);
	if (!ret)
		ret = workers_open(&l->workers, threads, e);
	if (!ret && m->precision == WIRE_NPU) {
		l->exp2 = malloc(KERN_EXP2_ENTRIES * sizeof(*l->exp2));
		if (l->exp2)
			kern_exp2_table(l->exp2);
		else
			ret = err_set(e, ENOMEM,
				"no memory for the softmax's table of "
				"exponentials");
	}
	if (ret) {
		host_layers_close(l);
		return ret;
	}
	*out = l;
	return 0;
}

void host_layers_close(struct host_layers *l)
{
	if (!l)
		return;
	workers_close(l->workers);
	free(l->arena);
	free(l->exp2);
	free(l);
}

/* ---- memory -------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Take the next `bytes` bytes of the arena. If `arena` is NULL, only count the
 * bytes and return NULL. */
static void *take(uint8_t *arena, size_t *total, size_t bytes)
{
	uint8_t *p = arena ? arena + *total : NULL;

	*total += align_up(bytes, ALIGN);
	return p;
}

/* Divide the arena among the arrays. If `arena` is NULL, only compute the
 * necessary size. */
static size_t lay_out(
	struct host_layers *l, uint8_t *arena, uint32_t rows, uint32_t slots)
{
	const struct wire_model *m = &l->m;
	size_t n = rows, f = sizeof(float), total = 0;
	uint32_t group = m->n_head / m->n_kv_head;
	size_t attend = kern_attend_scratch(group, m->head_dim);
	size_t map = m->head_dim + (size_t)group * slots;
	unsigned widest =
		(unsigned)larger(larger(m->n_embd, m->n_ff), q_dim(l));

	/* A thread's scratch memory is used by one function at a time: by a
	 * kernel, or by map_heads, which stores one key and, for each slot, the
	 * scores of the query heads that share a key head. The largest of these
	 * sizes is enough. */
	l->thread_bytes = align_up(
		larger(kern_multiply_scratch(widest), larger(attend, map) * f),
		ALIGN);
	l->cos = take(arena, &total, n * (m->n_rot / 2) * f);
	l->sin = take(arena, &total, n * (m->n_rot / 2) * f);
	l->h = take(arena, &total, n * m->n_embd * f);
	l->q = take(arena, &total, n * q_dim(l) * f);
	l->a = take(arena, &total, n * q_dim(l) * f);
	l->k = take(arena, &total, n * kv_dim(l) * f);
	l->v = take(arena, &total, n * kv_dim(l) * f);
	l->gate = take(arena, &total, n * m->n_ff * f);
	l->up = take(arena, &total, n * m->n_ff * f);
	l->q8 = take(arena, &total, n * kern_q8_bytes(widest) + KERN_Q8_GAP);
	l->slot = take(arena, &total, slots * sizeof(*l->slot));
	l->thread = take(
		arena, &total, l->thread_bytes * workers_count(l->workers));
	return total;
}

int host_layers_reserve(
	struct host_layers *l, uint32_t rows, uint32_t length, struct err *e)
{
	uint8_t *arena;
	size_t bytes;

	if (rows <= l->rows_room && length <= l->slots_room)
		return 0;
	rows = rows > l->rows_room ? rows : l->rows_room;
	length = length > l->slots_room ? length : l->slots_room;
	free(l->arena);
	l->arena = NULL;
	l->rows_room = l->slots_room = 0;
	bytes = lay_out(l, NULL, rows, length);
	arena = hugemem_alloc(bytes);
	if (!arena)
		return err_set(e, ENOMEM,
			"no memory to compute %u rows on the host: %zu MiB",
			rows, bytes >> 20);
	lay_out(l, arena, rows, length);
	for (uint32_t i = 0; i < length; i++)
		l->slot[i] = i;
	l->arena = arena;
	l->rows_room = rows;
	l->slots_room = length;
	return 0;
}

/* ---- steps of one row ---------------------------------------------------- */

static const float *vector(
	const struct host_layers *l, enum wire_layer_tensor t)
{
	return (const float *)(const void *)(l->weights + l->tensor[t].offset);
}

static void *scratch_of(const struct host_layers *l, unsigned thread)
{
	return l->thread + thread * l->thread_bytes;
}

static void to_f16(const struct host_layers *l, float *x, size_t n)
{
	if (l->m.precision != WIRE_F32)
		l->kern->round_f16(x, n);
}

static bool is_int8(const struct host_layers *l, enum wire_layer_tensor t)
{
	return l->m.precision == WIRE_INT8 &&
		kern_takes_q8((enum dtype)l->tensor[t].type);
}

/* Prepare k values of a row as input of the matrices [first, last]. The values
 * are quantized if one of the matrices has an int8 kernel, and rounded to fp16
 * if one of them has no int8 kernel. */
static void operand(const struct host_layers *l, unsigned row, float *x,
	uint32_t k, enum wire_layer_tensor first, enum wire_layer_tensor last)
{
	bool quantize = false, round = false;

	for (unsigned t = first; t <= last; t++) {
		quantize |= is_int8(l, t);
		round |= !is_int8(l, t);
	}
	if (round)
		to_f16(l, x, k);
	if (quantize)
		l->kern->quantize(l->q8 + row * kern_q8_bytes(k), x, k);
}

static float *state(const struct host_layers *l, unsigned row)
{
	return l->rows->x + (size_t)row * l->m.n_embd;
}

static void norm(
	const struct host_layers *l, unsigned row, enum wire_layer_tensor w)
{
	uint32_t n = l->m.n_embd;

	l->kern->rmsnorm(l->h + (size_t)row * n, state(l, row), vector(l, w), n,
		l->m.norm_eps);
}

static void add_residual(void *arg, unsigned row, unsigned thread)
{
	const struct host_layers *l = arg;
	uint32_t n = l->m.n_embd;

	l->kern->add(state(l, row), l->h + (size_t)row * n, n);
}

static void before_attention(void *arg, unsigned row, unsigned thread)
{
	struct host_layers *l = arg;
	uint32_t n = l->m.n_embd;

	norm(l, row, WIRE_T_ATTN_NORM);
	operand(l, row, l->h + (size_t)row * n, n, WIRE_T_Q, WIRE_T_V);
}

/* Normalize the queries or keys of a row, if the model normalizes them, and
 * apply RoPE for the row's position. */
static void place_heads(const struct host_layers *l, unsigned row, float *y,
	uint32_t n, enum wire_layer_tensor w)
{
	const struct wire_model *m = &l->m;
	size_t at = (size_t)row * (m->n_rot / 2);

	for (uint32_t i = 0; i < n; i += m->head_dim) {
		if (l->tensor[w].rows)
			l->kern->rmsnorm(y + i, y + i, vector(l, w),
				m->head_dim, m->norm_eps);
		if (m->n_rot)
			l->kern->rope(y + i, l->cos + at, l->sin + at, m->n_rot,
				m->rope_neox);
	}
}

static uint8_t *cached(
	const struct host_layers *l, unsigned half, uint32_t position)
{
	const struct host_rows *r = l->rows;

	return r->kv +
		((2 * (size_t)l->layer + half) * r->slots + position) *
		l->m.kv_stride;
}

static void store(const struct host_layers *l, void *to, float *x)
{
	if (wire_kv_f16(l->m.precision))
		l->kern->store_f16(to, x, kv_dim(l));
	else
		memcpy(to, x, kv_dim(l) * sizeof(*x));
}

static void place_row(void *arg, unsigned row, unsigned thread)
{
	struct host_layers *l = arg;
	uint32_t q = q_dim(l), kv = kv_dim(l), at = l->rows->position[row];
	float *query = l->q + (size_t)row * q, *key = l->k + (size_t)row * kv;

	place_heads(l, row, query, q, WIRE_T_Q_NORM);
	place_heads(l, row, key, kv, WIRE_T_K_NORM);
	to_f16(l, query, q);
	store(l, cached(l, 0, at), key);
	store(l, cached(l, 1, at), l->v + (size_t)row * kv);
}

static void before_output(void *arg, unsigned row, unsigned thread)
{
	struct host_layers *l = arg;
	uint32_t n = q_dim(l);

	operand(l, row, l->a + (size_t)row * n, n, WIRE_T_O, WIRE_T_O);
}

static void before_ffn(void *arg, unsigned row, unsigned thread)
{
	struct host_layers *l = arg;
	uint32_t n = l->m.n_embd;

	add_residual(l, row, thread);
	norm(l, row, WIRE_T_FFN_NORM);
	operand(l, row, l->h + (size_t)row * n, n, WIRE_T_GATE, WIRE_T_UP);
}

static void before_down(void *arg, unsigned row, unsigned thread)
{
	struct host_layers *l = arg;
	uint32_t n = l->m.n_ff;
	float *gate = l->gate + (size_t)row * n;

	l->kern->swiglu(gate, gate, l->up + (size_t)row * n, n);
	operand(l, row, gate, n, WIRE_T_DOWN, WIRE_T_DOWN);
}

static void each_row(struct host_layers *l,
	void (*fn)(void *arg, unsigned row, unsigned thread))
{
	uint64_t work = (uint64_t)l->rows->n * l->m.n_embd * WORKERS_VALUE;

	workers_share(l->workers, work, fn, l, l->rows->n);
}

/* ---- matrices ------------------------------------------------------------ */

/* Compute a part of the products for all rows. The parts of the first product
 * come first. */
static void multiply_part(void *arg, unsigned i, unsigned thread)
{
	const struct host_layers *l = arg;
	const struct product *p = l->product;
	const struct kern_parts *parts = l->parts;
	const struct wire_tensor *w;
	struct kern_part part;
	struct kern_rows rows;
	enum dtype type;
	uint32_t from, n;
	float *y;

	for (; i >= kern_parts_count(parts); p++, parts++)
		i -= kern_parts_count(parts);
	part = kern_part(parts, i);
	if (!part.n)
		return;
	w = &l->tensor[p->w];
	type = (enum dtype)w->type;
	rows = (struct kern_rows){ p->x, w->cols,
		is_int8(l, p->w) ? l->q8 : NULL, l->rows->n,
		l->m.precision == WIRE_NPU };
	from = part.first * TILE;
	n = part.n * TILE;
	n = n < w->rows - from ? n : w->rows - from;
	y = p->y + from;
	kern_multiply(l->kern, y, w->rows, &rows, type,
		l->weights + w->offset + layout_bytes(type, from, w->cols), n,
		w->cols, scratch_of(l, thread));
	for (uint32_t row = 0; row < rows.n; row++, y += w->rows) {
		if (p->bias != NO_BIAS && l->tensor[p->bias].rows)
			l->kern->add(y, vector(l, p->bias) + from, n);
		if (l->m.precision == WIRE_NPU)
			to_f16(l, y, n);
	}
}

static void matrices(struct host_layers *l, const struct product *p, unsigned n)
{
	unsigned parts = 0;
	uint64_t work = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct wire_tensor *w = &l->tensor[p[i].w];

		l->parts[i] = kern_parts((w->rows + TILE - 1) / TILE,
			layout_bytes((enum dtype)w->type, TILE, w->cols),
			SIZE_MAX, workers_count(l->workers));
		parts += kern_parts_count(&l->parts[i]);
		work += (uint64_t)l->rows->n * w->rows * w->cols;
	}
	l->product = p;
	workers_share(l->workers, work, multiply_part, l, parts);
}

/* ---- attention ----------------------------------------------------------- */

/* Compute attention of the query heads that share one key-value head, for
 * l->together rows (at most KERN_ATTEND_ROWS). */
static void attend_part(void *arg, unsigned part, unsigned thread)
{
	const struct host_layers *l = arg;
	const struct wire_model *m = &l->m;
	uint32_t group = m->n_head / m->n_kv_head, n = q_dim(l);
	uint32_t row = part / m->n_kv_head * l->together;
	uint32_t end = row + l->together;
	size_t at = (size_t)(part % m->n_kv_head) * m->head_dim;
	size_t q = row * (size_t)n + at * group;
	struct kern_query query[KERN_ATTEND_ROWS];
	struct kern_kv kv = {
		.f16 = wire_kv_f16(m->precision),
		.stride = m->kv_stride,
	};

	end = end < l->rows->n ? end : l->rows->n;
	at *= wire_kv_elt(m->precision);
	kv.k = cached(l, 0, 0) + at;
	kv.v = cached(l, 1, 0) + at;
	for (uint32_t i = row; i < end; i++, q += n)
		query[i - row] = (struct kern_query){ .q = l->q + q,
			.out = l->a + q,
			.own = l->slot,
			.n_own = l->rows->end[i] };
	l->kern->attend_rows(query, end - row, group, &kv, m->head_dim,
		m->attn_scale, l->exp2, scratch_of(l, thread));
}

static void attend(struct host_layers *l)
{
	uint32_t n = l->rows->n;
	uint32_t share = n * l->m.n_kv_head / (2 * workers_count(l->workers));
	uint64_t work = 0;

	share = share < KERN_ATTEND_ROWS ? share : KERN_ATTEND_ROWS;
	l->together = share ? share : 1;
	for (uint32_t i = 0; i < n; i++)
		work += 2ull * l->rows->end[i] * q_dim(l);
	workers_share(l->workers, work, attend_part, l,
		(n + l->together - 1) / l->together * l->m.n_kv_head);
}

/* ---- attention weights --------------------------------------------------- */

/* Add to out[] the attention weights of those query heads of a row that share
 * one key head. Each key is read from the cache once for all of these heads. */
static void map_heads(const struct host_layers *l, uint32_t row,
	uint32_t kv_head, float *out, float *scratch)
{
	const struct wire_model *m = &l->m;
	uint32_t group = m->n_head / m->n_kv_head, dim = m->head_dim;
	uint32_t n = l->rows->end[row];
	bool f16 = wire_kv_f16(m->precision);
	size_t at = (size_t)kv_head * dim * wire_kv_elt(m->precision);
	const float *q = l->q + row * (size_t)q_dim(l) + kv_head * group * dim;
	float *key = scratch, *score = scratch + dim;

	for (uint32_t p = 0; p < n; p++) {
		dtype_info(f16 ? DTYPE_F16 : DTYPE_F32)
			->to_f32(key, cached(l, 0, p) + at, dim);
		for (uint32_t h = 0; h < group; h++) {
			float sum = 0;

			for (uint32_t d = 0; d < dim; d++)
				sum += q[h * dim + d] * key[d];
			score[h * n + p] = sum * m->attn_scale;
		}
	}
	/* Compute the softmax of each head, and add it, divided by the number
	 * of heads, to out[]. */
	for (uint32_t h = 0; h < group; h++, score += n) {
		struct softmax s = { .most = (double)score[0],
			.temperature = 1 };

		for (uint32_t i = 1; i < n; i++)
			if ((double)score[i] > s.most)
				s.most = (double)score[i];
		for (uint32_t i = 0; i < n; i++)
			softmax_add(&s, (double)score[i]);
		for (uint32_t i = 0; i < n; i++)
			out[i] += (float)(softmax_of(&s, (double)score[i]) /
				m->n_head);
	}
}

static void map_row(void *arg, unsigned row, unsigned thread)
{
	const struct host_layers *l = arg;
	const struct host_rows *r = l->rows;
	size_t at = ((size_t)row * l->n_layer + l->layer) * r->length;
	float *out = r->attention + at;

	memset(out, 0, r->length * sizeof(*out));
	for (uint32_t h = 0; h < l->m.n_kv_head; h++)
		map_heads(l, row, h, out, scratch_of(l, thread));
}

/* ---- layers -------------------------------------------------------------- */

static void run_layer(struct host_layers *l)
{
	const struct product qkv[] = {
		{ WIRE_T_Q, WIRE_T_Q_BIAS, l->h, l->q },
		{ WIRE_T_K, WIRE_T_K_BIAS, l->h, l->k },
		{ WIRE_T_V, WIRE_T_V_BIAS, l->h, l->v },
	};
	const struct product o = { WIRE_T_O, WIRE_T_O_BIAS, l->a, l->h };
	const struct product gate_up[] = {
		{ WIRE_T_GATE, NO_BIAS, l->h, l->gate },
		{ WIRE_T_UP, NO_BIAS, l->h, l->up },
	};
	const struct product down = { WIRE_T_DOWN, NO_BIAS, l->gate, l->h };

	each_row(l, before_attention);
	matrices(l, qkv, ARRAY_LEN(qkv));
	each_row(l, place_row);
	attend(l);
	if (l->rows->attention)
		each_row(l, map_row);
	each_row(l, before_output);
	matrices(l, &o, 1);
	each_row(l, before_ffn);
	matrices(l, gate_up, ARRAY_LEN(gate_up));
	each_row(l, before_down);
	matrices(l, &down, 1);
	each_row(l, add_residual);
}

void host_layers_run(struct host_layers *l, const struct host_rows *rows)
{
	uint32_t half = l->m.n_rot / 2;

	l->rows = rows;
	for (uint32_t b = 0; b < l->n_blocks; b++) {
		const struct block *block = &l->block[b];
		const float *freq;

		l->weights = weights_bytes(block);
		freq = (const void *)(l->weights + block->rope_freq.offset);
		for (uint32_t i = 0; i < rows->n && !b; i++)
			kern_angles(l->cos + (size_t)i * half,
				l->sin + (size_t)i * half, rows->position[i],
				freq, half);
		for (uint32_t i = 0; i < block->n_layers; i++) {
			l->layer = block->first_layer + i;
			l->tensor = block->tensor[i];
			run_layer(l);
		}
	}
}
