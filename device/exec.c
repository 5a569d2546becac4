#include "device/exec.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/workers.h"
#include "device/cache.h"
#include "device/cost.h"
#include "device/device_trace.h"
#include "device/exec_op.h"
#include "device/extended.h"
#include "device/graph.h"
#include "device/picks.h"
#include "device/rowset.h"
#include "tensor/kern.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- set-up of the executor ---------------------------------------------- */

size_t exec_slice(unsigned threads)
{
	return (EXEC_TCM_BYTES - EXEC_EXP2_BYTES) / threads &
		~(size_t)(COHERENCE_LINE - 1);
}

int exec_init(struct exec *x, struct err *e)
{
	x->slice = exec_slice(workers_count(x->workers));
	x->tcm = hugemem_alloc(EXEC_TCM_BYTES);
	if (!x->tcm)
		return err_set(e, ENOMEM, "no memory for %u bytes of TCM",
			EXEC_TCM_BYTES);
	x->exp2 =
		(uint16_t *)(void *)(x->tcm + EXEC_TCM_BYTES - EXEC_EXP2_BYTES);
	kern_exp2_table(x->exp2);
	return 0;
}

void exec_release(struct exec *x)
{
	free(x->arena);
	free(x->tcm);
	x->tcm = x->arena = NULL;
}

void exec_arena_take(struct exec *x, void *arena, size_t bytes)
{
	if (!arena || bytes <= x->arena_bytes) {
		free(arena);
		return;
	}
	free(x->arena);
	x->arena = arena;
	x->arena_bytes = bytes;
	x->left.any = false;
}

/* ---- a run of a graph ---------------------------------------------------- */

static int read_inputs(struct run *r, const struct binding *b,
	const struct wire_graph_run *wire, struct err *e)
{
	struct cache *c = r->x->cache;
	uint32_t half = r->g->model.n_rot / 2;
	size_t bytes = (size_t)wire->rows * r->g->model.n_embd * sizeof(float);
	float *cosine = run_place(r, r->g->at.cos);
	float *sine = run_place(r, r->g->at.sin);
	const float *freq;
	int ret;

	r->set = (struct rowset){ .rows = wire->rows };
	if (graph_is_expert(r->g)) {
		cache_operator(c, "rows", -1);
		return picks_take(&r->picks, wire, r->g, b->n_weights,
			r->x->arena,
			view_read(c, b->addr[WIRE_REF_ROWS],
				picks_bytes(wire, r->g)),
			&r->x->left.slots, e);
	}
	if (!graph_is_output(r->g)) {
		cache_operator(c, "rows", -1);
		ret = rowset_take(&r->set, wire, r->g, r->x->arena,
			view_read(
				c, b->addr[WIRE_REF_ROWS], rowset_bytes(wire)),
			e);
		if (ret)
			return ret;
	}
	if (!graph_begins(r->g))
		return 0;
	cache_operator(c, "hidden_in", -1);
	memcpy(run_place(r, r->g->at.x),
		view_read(c, b->addr[WIRE_REF_HIDDEN_IN], bytes), bytes);
	cache_operator(c, "rope_freq", -1);
	if (!half || graph_is_output(r->g))
		return 0;
	freq = run_vector(r, r->g->rope_freq);
	for (uint32_t i = 0; i < r->set.rows; i++)
		kern_angles(cosine + i * half, sine + i * half,
			r->set.row[i].position, freq, half);
	return 0;
}

/*
 * If a layer runs in parts, its first part writes keys and values (and, with
 * experts, the router's products), and its last part writes hidden states. An
 * output graph writes the likeliest tokens. With one level of cache, a clean of
 * each result's range reaches memory; with two levels, only a clean of the
 * whole cache reaches memory.
 */
static void write_outputs(const struct run *r, const struct binding *b)
{
	struct cache *c = r->x->cache;
	uint32_t stride = r->g->model.kv_stride;
	uint32_t out = b->addr[WIRE_REF_HIDDEN_OUT];
	bool two_levels = cache_two_levels(c);
	size_t bytes = graph_out_bytes(r->g, r->set.rows);

	if (graph_ends(r->g) || graph_routes(r->g)) {
		cache_operator(c, "hidden_out", -1);
		memcpy(view_write(c, out, bytes), run_place(r, graph_out(r->g)),
			bytes);
		if (!two_levels)
			cache_clean(c, out, bytes);
	}
	for (uint32_t l = 0;
		!two_levels && graph_begins(r->g) && l < r->g->n_layers; l++) {
		struct wire_span s = { 0, 0 };

		cache_operator(c, "kv clean", (int)(r->g->first_layer + l));
		while (rowset_next(&r->set, r->set.written, &s))
			for (unsigned which = 0; which < 2; which++)
				cache_clean(c,
					run_kv_addr(r, l, which) +
						s.slot * stride,
					(size_t)s.count * stride);
	}
	if (two_levels) {
		cache_operator(c, "clean all", -1);
		cache_clean_all(c);
	}
}

/* Check that the scratch arena has the results of the layer's previous part,
 * which a run of another graph in between would have overwritten. */
static int check_continues(struct exec_left *left, const struct graph *g,
	const struct wire_graph_run *wire, struct err *e)
{
	bool fits = graph_begins(g) ||
		(left->any && left->first_layer == g->first_layer &&
			left->graph_rows == g->rows &&
			left->rows == wire->rows &&
			left->tensor == g->part.first &&
			left->row == g->part.first_row &&
			!memcmp(&left->model, &g->model, sizeof(g->model)));

	left->any = false;
	return fits ? 0
		    : err_set(e, EINVAL,
			      "graph run: graph %u continues layer %u from "
			      "row %u of tensor %s on, but the previous "
			      "graph run did not end there, or did not have "
			      "%u rows",
			      g->id, g->first_layer, g->part.first_row,
			      graph_tensor_name(g->part.first), wire->rows);
}

/*
 * Run the operators from `from` up to, but not including, `end`. `padded` is
 * the number of rows for which the cost model computes costs. Some operators
 * run together (run_op_group); with a trace, each operator runs alone, so that
 * it has a time of its own.
 */
static void run_ops(struct run *r, unsigned from, unsigned end, uint32_t padded)
{
	struct exec *x = r->x;

	for (unsigned i = from; i < end; i += r->n_ops) {
		const struct op *op = r->op = &r->g->op[i];
		uint64_t read = cache_dma(x->cache).bytes;

		r->n_ops = x->trace ? 1 : run_op_group(op, end - i);
		x->beat(x->beat_arg);
		/* Without a phone's profile, an operator begins when the
		 * previous operator ends, so the clock need not be read again.
		 * With a profile, the cost model takes time between two
		 * operators, so read the clock. */
		if (x->trace && x->soc)
			r->began = clock_ns();
		for (unsigned k = 0; k < r->n_ops; k++) {
			cache_operator(x->cache, op[k].name,
				(int)(r->g->first_layer + op[k].layer));
			if (!r->idle)
				run_op_begin(r, &op[k]);
		}
		if (!r->idle)
			run_op(r);
		if (x->trace && !r->idle)
			r->began = device_trace_operator(x->trace, op->name,
				(int)(r->g->first_layer + op->layer), r->began,
				cache_dma(x->cache).bytes - read);
		for (unsigned k = 0; x->soc && k < r->n_ops; k++)
			cost_op(x->soc, r->g, padded, r->set.rows, &op[k],
				&r->attention, &x->price);
	}
}

/* Run the graph of an expert once for each expert of the run. On a phone the
 * graph would compute whole tiles of 32 rows, so the cost is computed for the
 * padded number of rows. */
static void run_experts(
	struct run *r, const struct binding *b, const struct wire_graph_run *w)
{
	const struct picks *p = &r->picks;
	unsigned sum = r->g->n_ops - 1;

	for (unsigned i = 0; i < p->experts; i++) {
		uint32_t rows = p->first[i + 1] - p->first[i];
		uint32_t padded = (uint32_t)align_up(rows, TILE);

		r->set.rows = rows;
		r->weights = b->weights[i];
		r->expert_row = p->row + p->first[i];
		r->expert_slot = p->slot + p->first[i];
		if (rows)
			run_ops(r, 0, sum,
				padded < r->g->rows ? padded : r->g->rows);
	}
	r->set.rows = w->rows;
	if (!(w->flags & WIRE_RUN_MORE))
		run_ops(r, sum, r->g->n_ops, r->g->rows);
}

static void put_u64(uint32_t word[2], uint64_t v)
{
	word[0] = (uint32_t)v;
	word[1] = (uint32_t)(v >> 32);
}

int exec_run(struct exec *x, const struct graph *g, const struct binding *b,
	const struct wire_graph_run *wire, struct wire_done *done,
	struct err *e)
{
	struct run r = {
		.x = x,
		.g = g,
		.weights = b->weights[0],
		.kv = b->addr[WIRE_REF_KV],
		.apart = wire->flags & WIRE_RUN_APART,
		.idle = wire->flags & WIRE_RUN_IDLE,
		.began = device_trace_now(x->trace),
	};
	const struct wire_model *m = &g->model;
	/* bytes of the key and the value of one KV head in a slot */
	uint64_t slot = 2 * m->head_dim * wire_kv_elt(m->precision);
	bool more = wire->flags & WIRE_RUN_MORE;
	bool expert = graph_is_expert(g);
	int ret = check_continues(&x->left, g, wire, e);

	if (!ret)
		ret = read_inputs(&r, b, wire, e);
	if (ret)
		return ret;
	if (x->trace)
		r.began = device_trace_operator(x->trace, "inputs", -1, r.began,
			cache_dma(x->cache).bytes);
	if (x->soc && graph_begins(g) && !graph_is_output(g))
		cost_attention(x->soc, g, &r.set, r.apart,
			(void *)(x->arena + g->at.piece), &r.attention);
	if (x->soc && r.weights >= EXTENDED_BASE)
		cost_extended(x->soc, g, &x->price);
	/* An idle run computes nothing: clear its output, so that it does not
	 * contain results of an earlier run. */
	if (r.idle && graph_out(g) != g->at.x)
		memset(run_place(&r, graph_out(g)), 0,
			graph_out_bytes(g, wire->rows));
	/* Wake the workers if the work is worth it. The estimate of the work,
	 * one multiply-add for each row and byte of weights, is low: a byte of
	 * weights needs one or two for each row. */
	if (!r.idle)
		workers_burst(x->workers,
			(uint64_t)g->weights_bytes *
				(expert ? r.picks.first[r.picks.experts]
					: r.set.rows));
	if (expert)
		run_experts(&r, b, wire);
	else
		run_ops(&r, 0, g->n_ops, g->rows);
	workers_burst(x->workers, 0);
	r.began = device_trace_now(x->trace);
	if (!more)
		write_outputs(&r, b);
	if (x->trace)
		device_trace_operator(x->trace, "outputs", -1, r.began, 0);
	x->left = (struct exec_left){ .any = more || !graph_ends(g),
		.first_layer = g->first_layer,
		.graph_rows = g->rows,
		.rows = wire->rows,
		.tensor = more ? g->part.first : g->part.end,
		.row = more ? g->part.first_row : g->part.end_row,
		.slots = more ? x->left.slots : 0,
		.model = g->model };
	done->counters.saturated =
		atomic_load_explicit(&r.saturated, memory_order_relaxed);
	put_u64(&done->arg[WIRE_RUN_KV_READ],
		slot * atomic_load_explicit(&r.read, memory_order_relaxed));
	put_u64(&done->arg[WIRE_RUN_KV_APART],
		graph_begins(g)
			? slot * m->n_kv_head * g->n_layers * r.set.seen_slots
			: 0);
	put_u64(&done->arg[WIRE_RUN_EXTENDED], cache_dma(x->cache).extended);
	return 0;
}
