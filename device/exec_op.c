#include "device/exec_op.h"

#include "base/checked.h"
#include "base/workers.h"
#include "device/cache.h"
#include "device/device_trace.h"
#include "device/graph.h"
#include "device/rowset.h"
#include "tensor/kern.h"
#include "tensor/softmax_sum.h"
#include "tensor/tile.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- rows, scratch, counters ------------------------------------------- */

/* The address of row `row` of an operator's input (in_row) or output (out_row).
 */
static float *in_row(const struct run *r, const struct op *op, uint32_t row)
{
	return run_place(r, op->in) + (size_t)row * op->k;
}

static float *out_row(const struct run *r, const struct op *op, uint32_t row)
{
	row += op->slots ? r->expert_slot : 0;
	return run_place(r, op->out) + (size_t)row * op->n;
}

static void *tcm_of(const struct run *r, unsigned thread)
{
	return r->x->tcm + thread * r->x->slice;
}

static uint8_t *scratch_of(const struct run *r, unsigned thread)
{
	const struct graph_layout *at = &r->g->at;

	return r->x->arena + at->thread + thread * at->thread_bytes;
}

static void count_saturated(struct run *r, size_t beyond)
{
	if (beyond)
		atomic_fetch_add_explicit(
			&r->saturated, (uint32_t)beyond, memory_order_relaxed);
}

/* Round n values of an operator's output to fp16 if the operator that reads the
 * output expects fp16. */
static void round_output(struct run *r, const struct op *op, float *x, size_t n)
{
	if (op->round && r->g->model.precision != WIRE_F32)
		count_saturated(r, r->x->kern->round_f16(x, n));
}

/* Run r->fn and, for the trace, record the begin and end of each worker's
 * share. */
static void timed_part(void *arg, unsigned part, unsigned thread)
{
	struct run *r = arg;
	struct device_trace_share *s = &r->x->trace->share[thread];

	if (!s->begin)
		s->begin = clock_ns();
	r->fn(r, part, thread);
	s->end = clock_ns();
}

/* Run `fn` for every part: on all workers if `work` (in multiply-adds) takes
 * longer than waking the workers, else on this thread. */
static void spread(struct run *r, uint64_t work,
	void (*fn)(void *, unsigned, unsigned), unsigned parts)
{
	bool timed = r->x->trace && workers_count(r->x->workers) > 1;

	r->fn = fn;
	workers_share(r->x->workers, work, timed ? timed_part : fn, r, parts);
}

/* ---- operators that need only the same row of their inputs ------------- */

typedef void row_fn(
	struct run *, const struct op *, uint32_t row, unsigned thread);

static void rmsnorm_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	float *y = out_row(r, op, row);

	r->x->kern->rmsnorm(
		y, in_row(r, op, row), r->vector, op->n, r->g->model.norm_eps);
	round_output(r, op, y, op->n);
}

static void head_norm_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	uint32_t dim = op->w.cols;
	float *y = out_row(r, op, row);

	for (uint32_t i = 0; i < op->n; i += dim)
		r->x->kern->rmsnorm(
			y + i, y + i, r->vector, dim, r->g->model.norm_eps);
}

static void rope_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	const struct wire_model *m = &r->g->model;
	size_t at = (size_t)row * (m->n_rot / 2);
	const float *c = run_place(r, r->g->at.cos) + at;
	const float *s = run_place(r, r->g->at.sin) + at;
	float *y = out_row(r, op, row);

	for (uint32_t i = 0; m->n_rot && i < op->n; i += m->head_dim)
		r->x->kern->rope(y + i, c, s, m->n_rot, m->rope_neox);
	round_output(r, op, y, op->n);
}

static void swiglu_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	float *y = out_row(r, op, row);

	r->x->kern->swiglu(y, y, in_row(r, op, row), op->n);
	round_output(r, op, y, op->n);
}

static void add_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	r->x->kern->add(out_row(r, op, row), in_row(r, op, row), op->n);
}

static void factor_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	float *y = out_row(r, op, row), product, small;

	r->x->kern->matmul(&product, 1, in_row(r, op, row), op->k, 1, DTYPE_F32,
		r->vector, 1, op->k, false,
		(float *)(void *)scratch_of(r, thread));
	/* e^-|product| is at most 1, so it does not overflow */
	small = softmax_exp(-fabsf(product));
	for (uint32_t i = 0; i < op->n; i++)
		y[i] *= (product < 0 ? small : 1) / (1 + small);
}

static void quantize_row(
	struct run *r, const struct op *op, uint32_t row, unsigned thread)
{
	r->x->kern->quantize(r->x->arena + op->out + row * kern_q8_bytes(op->k),
		in_row(r, op, row), op->k);
}

static row_fn *row_fn_of(const struct op *op)
{
	static row_fn *const of_row[OP_SUM_PICKS + 1] = {
		[OP_RMSNORM] = rmsnorm_row,
		[OP_HEAD_NORM] = head_norm_row,
		[OP_ROPE] = rope_row,
		[OP_SWIGLU] = swiglu_row,
		[OP_QUANTIZE] = quantize_row,
		[OP_ADD] = add_row,
		[OP_FACTOR] = factor_row,
	};

	return of_row[op->kind];
}

static bool takes_vector(const struct op *op)
{
	return op->kind == OP_RMSNORM || op->kind == OP_HEAD_NORM ||
		op->kind == OP_FACTOR;
}

unsigned run_op_group(const struct op *op, unsigned n)
{
	bool vector = false;
	unsigned i;

	for (i = 0; i < n && row_fn_of(op + i); i++) {
		if (vector && takes_vector(op + i))
			break;
		vector |= takes_vector(op + i);
	}
	return i ? i : 1;
}

static void rows_part(void *arg, unsigned part, unsigned thread)
{
	struct run *r = arg;
	uint32_t row = part * r->together, end = row + r->together;

	end = end < r->set.rows ? end : r->set.rows;
	for (; row < end; row++)
		for (unsigned i = 0; i < r->n_ops; i++)
			row_fn_of(r->op + i)(r, r->op + i, row, thread);
}

/* Run the group of r->n_ops operators. A thread takes several rows at a time,
 * and runs all operators for a row while the row is in its cache. */
static void rows(struct run *r)
{
	uint32_t parts = 4 * workers_count(r->x->workers);
	uint64_t values = 0;

	for (unsigned i = 0; i < r->n_ops; i++)
		values += r->op[i].n;
	r->together = (r->set.rows + parts - 1) / parts;
	spread(r, values * r->set.rows * WORKERS_VALUE, rows_part,
		(r->set.rows + r->together - 1) / r->together);
}

/* ---- operators of experts that use other rows ---------------------------- */

static void gather_row(void *arg, unsigned row, unsigned thread)
{
	struct run *r = arg;
	const struct op *op = r->op;

	memcpy(out_row(r, op, row), in_row(r, op, r->expert_row[row]),
		op->n * sizeof(float));
}

static void sum_picks_row(void *arg, unsigned row, unsigned thread)
{
	struct run *r = arg;
	const struct op *op = r->op;
	uint32_t n = r->g->model.n_used;

	for (uint32_t i = 0; i < n; i++) {
		struct pick_made pick = r->picks.made[row * n + i];

		r->x->kern->add_scaled(out_row(r, op, row),
			in_row(r, op, pick.slot), pick.weight, op->n);
	}
}

/* ---- matrix products ----------------------------------------------------- */

/* Multiply all rows by one part of the weights. The results are consecutive
 * columns of the output, written to y, whose rows are ldy floats apart. Returns
 * the number of columns. */
static uint32_t multiply(struct run *r, struct kern_part part, unsigned thread,
	float *y, uint32_t ldy)
{
	const struct op *op = r->op;
	const struct kern_rows rows = {
		.x = op->int8 ? NULL : in_row(r, op, 0),
		.ldx = op->k,
		.q8 = op->int8 ? in_row(r, op, 0) : NULL,
		.n = r->set.rows,
		.w_f16 = r->g->model.precision == WIRE_NPU,
	};
	uint32_t from = part.first * r->unit, n = part.n * r->unit;
	const void *w = dma_read(r->x->cache,
		r->weights + op->w.offset + part.first * r->unit_bytes,
		part.n * r->unit_bytes, tcm_of(r, thread));

	if (n > op->w.rows - from)
		n = op->w.rows - from;
	kern_multiply(r->x->kern, y, ldy, &rows, op->w.type, w, n, op->k,
		scratch_of(r, thread));
	return n;
}

static void matmul_part(void *arg, unsigned i, unsigned thread)
{
	struct run *r = arg;
	const struct kern *kern = r->x->kern;
	const struct op *op = r->op;
	const struct kern_part part = kern_part(&r->parts, i);
	uint32_t from = part.first * r->unit + op->first, n;
	const float *bias = NULL;

	if (!part.n)
		return;
	n = multiply(r, part, thread, out_row(r, op, 0) + from, op->n);
	/* copy the bias over the weights in the TCM (on-chip memory), which the
	 * product no longer needs */
	if (op->bias.rows)
		bias = dma_read(r->x->cache,
			r->weights + op->bias.offset + from * 4, n * 4,
			tcm_of(r, thread));
	for (uint32_t row = 0; row < r->set.rows; row++) {
		float *y = out_row(r, op, row) + from;

		if (bias)
			kern->add(y, bias, n);
		if (r->g->model.precision == WIRE_NPU)
			count_saturated(r, kern->round_f16(y, n));
	}
	r->x->beat(r->x->beat_arg);
}

static void set_unit(struct run *r)
{
	const struct op *op = r->op;
	bool tiled = tile_info(op->w.type);

	r->unit = tiled ? TILE : 1;
	r->unit_bytes = tiled ? tile_strip_bytes(op->w.type, op->k)
			      : dtype_row_bytes(op->w.type, op->k);
}

static void matmul(struct run *r)
{
	const struct op *op = r->op;
	const unsigned threads = workers_count(r->x->workers);
	size_t units, most, bias;

	set_unit(r);
	units = (op->w.rows + r->unit - 1) / r->unit;
	/* A part's weights, and later its bias in place of the weights, must
	 * fit the thread's share of the TCM (on-chip memory). */
	most = r->x->slice / r->unit_bytes;
	bias = r->x->slice / sizeof(float) / r->unit;
	r->parts = kern_parts(
		units, r->unit_bytes, most < bias ? most : bias, threads);
	spread(r, (uint64_t)r->set.rows * op->w.rows * op->k, matmul_part,
		kern_parts_count(&r->parts));
}

/* ---- attention --------------------------------------------------------- */

static void store(struct run *r, uint32_t addr, float *x)
{
	uint32_t n = r->op->n, precision = r->g->model.precision;
	uint16_t *to =
		view_write(r->x->cache, addr, n * wire_kv_elt(precision));

	if (wire_kv_f16(precision))
		count_saturated(r, r->x->kern->store_f16(to, x, n));
	else
		memcpy(to, x, n * sizeof(float));
}

/* Called only on the thread that runs requests, because workers must not call
 * view_read or view_write (device/cache.h). */
static void kv_write(struct run *r)
{
	uint32_t stride = r->g->model.kv_stride;
	uint32_t k = run_kv_addr(r, r->op->layer, 0);
	uint32_t v = run_kv_addr(r, r->op->layer, 1);

	for (uint32_t i = 0; i < r->set.rows; i++) {
		uint32_t at = r->set.row[i].slot * stride;

		store(r, k + at, in_row(r, r->op, i));
		store(r, v + at, out_row(r, r->op, i));
	}
}

/*
 * The rows of one call of attend_rows. slot[] holds the list `own` of each of
 * these rows (struct kern_query), one list after another. A list has at most as
 * many slots as the request has rows; for example, 32 lists of 256 slots fit.
 */
struct row_batch {
	struct kern_query query[KERN_ATTEND_ROWS];
	uint32_t used, slot[8 * WIRE_MAX_ROWS];
};

/* Compute the attention of the query heads that share one KV head
 * (grouped-query attention), for the rows order[at] to order[end - 1], or for
 * the first of them that fit into one kernel call. Returns the number of rows
 * computed, at least 1. */
static uint32_t attend_batch(struct run *r, uint32_t at, uint32_t end,
	uint32_t kv_head, unsigned thread)
{
	const struct wire_model *m = &r->g->model;
	const struct rowset *s = &r->set;
	uint32_t group = m->n_head / m->n_kv_head, rows = 0;
	size_t head = (size_t)kv_head * m->head_dim, q = head * group;
	const struct kern_kv kv = {
		.k = r->k + head * wire_kv_elt(m->precision),
		.v = r->v + head * wire_kv_elt(m->precision),
		.stride = m->kv_stride,
		.f16 = wire_kv_f16(m->precision),
	};
	struct row_batch c;
	uint64_t read;

	c.used = 0;
	end = r->apart ? at + 1 : end;
	for (; at < end && ARRAY_LEN(c.slot) - c.used >= s->rows; at++) {
		const uint32_t i = s->order[at];
		uint32_t *own = c.slot + c.used;
		struct kern_query *query = &c.query[rows++];

		*query = (struct kern_query){ .q = in_row(r, r->op, i) + q,
			.out = out_row(r, r->op, i) + q,
			.span = s->span + s->row[i].first_span,
			.n_spans = s->row[i].n_spans,
			.own = own,
			.n_own = rowset_own(s, i, own) };
		c.used += query->n_own;
	}
	read = r->x->kern->attend_rows(c.query, rows, group, &kv, m->head_dim,
		m->attn_scale, m->precision == WIRE_NPU ? r->x->exp2 : NULL,
		(float *)(void *)scratch_of(r, thread));
	atomic_fetch_add_explicit(&r->read, read, memory_order_relaxed);
	return rows;
}

static void attend_part(void *arg, unsigned part, unsigned thread)
{
	struct run *r = arg;
	const struct wire_model *m = &r->g->model;
	size_t n = (size_t)m->n_head / m->n_kv_head * m->head_dim;
	uint32_t kv_head = part % m->n_kv_head;
	uint32_t at = part / m->n_kv_head * r->together;
	uint32_t end = at + r->together;

	end = end < r->set.rows ? end : r->set.rows;
	for (uint32_t i = at; i < end;)
		i += attend_batch(r, i, end, kv_head, thread);
	for (; at < end; at++)
		round_output(r, r->op,
			out_row(r, r->op, r->set.order[at]) + kv_head * n, n);
	r->x->beat(r->x->beat_arg);
}

/* Call view_read for all KV slots to which at least one row attends, so that
 * the emulated cache loads their lines. Returns the address of slot 0, even if
 * no row attends to slot 0. */
static const uint8_t *view_slots(const struct run *r, unsigned which)
{
	uint32_t addr = run_kv_addr(r, r->op->layer, which);
	uint32_t stride = r->g->model.kv_stride;
	struct wire_span s = { 0, 0 };
	const uint8_t *base = NULL;

	while (rowset_next(&r->set, r->set.seen, &s)) {
		size_t at = (size_t)s.slot * stride;
		const uint8_t *p = view_read(r->x->cache, addr + (uint32_t)at,
			(size_t)s.count * stride);

		base = p - at;
	}
	return base;
}

static void attend(struct run *r)
{
	const struct wire_model *m = &r->g->model;
	uint64_t work = 2 * r->set.seen_slots * m->n_head * m->head_dim;
	uint32_t kv_heads = m->n_kv_head, n = r->set.rows;
	unsigned threads = workers_count(r->x->workers);

	r->k = view_slots(r, 0);
	r->v = view_slots(r, 1);
	/* Choose the number of rows in a part. If the KV heads divide evenly
	 * among the threads, or each thread has at least two KV heads, a part
	 * has as many rows as one kernel call takes, so that slots that these
	 * rows share are read once. Otherwise the parts are smaller if this
	 * gives each thread about two parts. */
	if (kv_heads % threads && kv_heads < 2 * threads)
		n = (uint32_t)((uint64_t)n * kv_heads / (2 * threads));
	n = n < KERN_ATTEND_ROWS ? n : KERN_ATTEND_ROWS;
	r->together = n ? n : 1;
	spread(r, work, attend_part,
		(r->set.rows + r->together - 1) / r->together * kv_heads);
}

/* ---- the likeliest outputs --------------------------------------------- */

/* The list of the likeliest outputs (tokens) that the thread has found for a
 * row so far. While blocks are computed, `probability` holds the logit. */
static struct wire_likely *likely_of(
	const struct run *r, unsigned thread, uint32_t row)
{
	struct wire_likely *all = (void *)run_place(r, r->g->at.likely_thread);

	return all + ((size_t)thread * r->g->rows + row) * r->op->n;
}

static struct graph_sum *sum_of(
	const struct run *r, unsigned block, uint32_t row)
{
	struct graph_sum *all = (void *)run_place(r, r->g->at.sum);

	return all + (size_t)block * r->g->rows + row;
}

static bool likelier(struct wire_likely a, struct wire_likely b)
{
	return a.probability > b.probability ||
		(a.probability == b.probability && a.token < b.token);
}

static void keep_likely(struct wire_likely *best, uint32_t n,
	const float *logit, uint32_t outputs, uint32_t first)
{
	for (uint32_t i = 0; i < outputs; i++) {
		struct wire_likely new = { first + i, logit[i] };
		uint32_t at = n - 1;

		if (!likelier(new, best[at]))
			continue;
		for (; at && likelier(new, best[at - 1]); at--)
			best[at] = best[at - 1];
		best[at] = new;
	}
}

/* Compute one block of outputs (struct graph_sum) for all rows, and add large
 * logits to the thread's lists of likeliest outputs. */
static void likely_part(void *arg, unsigned block, unsigned thread)
{
	struct run *r = arg;
	uint32_t width = r->g->block, units = width / r->unit;
	uint32_t all = (r->op->w.rows + r->unit - 1) / r->unit;
	struct kern_part part = { block * units, all - block * units };
	float *y = (float *)(void *)(scratch_of(r, thread) + r->g->at.product);
	uint32_t n;

	part.n = part.n < units ? part.n : units;
	n = multiply(r, part, thread, y, width);

	for (uint32_t row = 0; row < r->set.rows; row++, y += width) {
		float most = -INFINITY;

		if (r->g->model.precision == WIRE_NPU)
			count_saturated(r, r->x->kern->round_f16(y, n));
		for (uint32_t i = 0; i < n; i++)
			most = y[i] > most ? y[i] : most;
		*sum_of(r, block, row) = (struct graph_sum){ most,
			(float)softmax_piece(y, n, most, 1) };
		/* Skip a block whose largest logit is smaller than all logits
		 * in this thread's list for the row. Once the list is full of
		 * large logits, most blocks are skipped. */
		if (most >= likely_of(r, thread, row)[r->op->n - 1].probability)
			keep_likely(likely_of(r, thread, row), r->op->n, y, n,
				block * width);
	}
	r->x->beat(r->x->beat_arg);
}

/* Merge the lists of the threads for a row, and convert logits to
 * probabilities. */
static void likely_row(void *arg, unsigned row, unsigned thread)
{
	struct run *r = arg;
	unsigned threads = workers_count(r->x->workers);
	uint32_t blocks = (r->op->w.rows + r->g->block - 1) / r->g->block;
	uint32_t n = r->op->n, taken[EXEC_MAX_THREADS] = { 0 };
	struct wire_likely *out =
		(struct wire_likely *)(void *)run_place(r, r->op->out) +
		(size_t)row * n;
	float most = -INFINITY;
	double sum = 0;

	for (uint32_t b = 0; b < blocks; b++)
		most = fmaxf(most, sum_of(r, b, row)->most);
	for (uint32_t b = 0; b < blocks; b++)
		sum += (double)sum_of(r, b, row)->sum *
			(double)softmax_exp(sum_of(r, b, row)->most - most);
	for (uint32_t i = 0; i < n; i++) {
		unsigned best = 0;

		for (unsigned t = 1; t < threads; t++)
			if (likelier(likely_of(r, t, row)[taken[t]],
				    likely_of(r, best, row)[taken[best]]))
				best = t;
		out[i] = likely_of(r, best, row)[taken[best]++];
		out[i].probability = out[i].token == UINT32_MAX
			? 0
			: (float)((double)softmax_exp(
					  out[i].probability - most) /
				  sum);
	}
}

static void likely(struct run *r)
{
	const struct op *op = r->op;
	const struct wire_likely none = { UINT32_MAX, -INFINITY };
	uint64_t work = (uint64_t)r->set.rows * op->w.rows;
	uint32_t blocks = (op->w.rows + r->g->block - 1) / r->g->block;

	set_unit(r);
	for (unsigned t = 0; t < workers_count(r->x->workers); t++)
		for (uint32_t row = 0; row < r->set.rows; row++)
			for (uint32_t i = 0; i < op->n; i++)
				likely_of(r, t, row)[i] = none;
	spread(r, work * op->k, likely_part, blocks);
	spread(r, (uint64_t)r->set.rows * blocks * WORKERS_VALUE, likely_row,
		r->set.rows);
}

/* ---- dispatch of operators ----------------------------------------------- */

void run_op_begin(struct run *r, const struct op *op)
{
	if (takes_vector(op))
		r->vector = run_vector(r, op->w);
}

void run_op(struct run *r)
{
	const struct op *op = r->op;
	uint64_t values = (uint64_t)r->set.rows * op->n;

	switch (op->kind) {
	case OP_MATMUL:
		matmul(r);
		break;
	case OP_KV_WRITE:
		kv_write(r);
		break;
	case OP_ATTEND:
		attend(r);
		break;
	case OP_LIKELY:
		likely(r);
		break;
	case OP_GATHER:
		spread(r, values * WORKERS_VALUE, gather_row, r->set.rows);
		break;
	case OP_SUM_PICKS:
		spread(r, values * r->g->model.n_used * WORKERS_VALUE,
			sum_picks_row, r->set.rows);
		break;
	default:
		rows(r);
	}
}
