/*
 * Layers with experts. A pass runs such a layer in two steps. The first step
 * runs a graph that ends with the router; the host waits for the router's
 * scores and chooses the experts of each row. In the second step the device
 * runs the experts that are in memory, each for all rows that use the expert,
 * while the cache (host/memory/experts.h) reads the absent experts. The order
 * in which experts run does not change a result (struct wire_pick).
 *
 * While the device computes a layer, the host applies the router of the next
 * layer to the states at the input of the current layer. The result is a
 * prediction of the next layer's experts, which the cache begins to read.
 */
#include "host/session/pass_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/memory/experts.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "host/session/route.h"
#include "shm/buffer.h"
#include "tensor/kern.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of experts per run. A request names all buffers of its run:
 * the weights of each expert, the picks (each row's experts and their weights,
 * struct wire_pick), the states, and the few ranges that the CPU wrote. */
#define RUN_EXPERTS 64
_Static_assert(2 * RUN_EXPERTS < WIRE_MAX_REFS,
	"a request has room for its other buffers");

/* Maximum number of rows of a pass for which experts are predicted. A pass with
 * more rows needs most of the experts anyway. */
#define AHEAD_ROWS 4

/* ---- weights ------------------------------------------------------------- */

int session_share_dense(struct session *s, struct err *e)
{
	struct pinned *p = &s->mix.dense;
	uint64_t bytes = 0;
	int ret;

	for (uint32_t b = 0; b < s->n_blocks; b++)
		if (!s->block[b].experts)
			bytes += align_up(s->block[b].bytes, WEIGHTS_ALIGN);
	if (bytes > BUFFER_MAX)
		return err_set(e, EFBIG,
			"the weights outside the experts take %llu MiB, but "
			"a shared buffer holds at most %zu MiB; try a model "
			"file with fewer bits per weight",
			(unsigned long long)(bytes >> 20), BUFFER_MAX >> 20);
	ret = buffer_create(
		&p->buffer, "weights0", bytes, BUFFER_DMA | BUFFER_HUGE, e);
	if (ret)
		return ret;
	buffer_take_memory(p->buffer, s->workers);
	bytes = 0;
	for (uint32_t b = 0; b < s->n_blocks; b++) {
		if (s->block[b].experts)
			continue;
		weights_share(&s->block[b], p->buffer, (uint32_t)bytes);
		bytes += align_up(s->block[b].bytes, WEIGHTS_ALIGN);
	}
	return 0;
}

int session_open_experts(struct session *s, struct err *e)
{
	struct mixture *x = &s->mix;
	const struct model *m = s->model;
	struct experts_opts o = { .model = m,
		.layout = s->plan.layout,
		.strip_max = s->strip_max,
		.slots = s->plan.expert_slots,
		.stream = s->opts.stream,
		.soc = s->opts.soc,
		.time = s->time,
		.trace = s->trace };
	int ret = session_flash_fault(s, e);

	if (ret)
		return ret;
	o.stream.fault = s->fault;
	ret = experts_open(&x->experts, &o, s->workers, &s->opts.progress, e);
	if (ret)
		return ret;
	x->n_buffers = experts_buffers(x->experts);
	x->buffer = calloc(x->n_buffers, sizeof(*x->buffer));
	x->route =
		calloc((size_t)s->plan.max_rows * m->n_used, sizeof(*x->route));
	x->wanted = calloc(m->n_expert, sizeof(*x->wanted));
	x->taken = calloc(m->n_expert, sizeof(*x->taken));
	ret = kern_select(&x->kern, e);
	if (ret)
		return ret;
	x->ahead = calloc(AHEAD_ROWS,
		(2ul * m->n_embd + m->n_expert) * sizeof(*x->ahead));
	x->scratch = aligned_alloc(
		64, align_up(kern_multiply_scratch(m->n_embd), 64) + 64);
	if (!x->buffer || !x->route || !x->wanted || !x->taken || !x->ahead ||
		!x->scratch)
		return err_set(
			e, ENOMEM, "no memory for %u experts", m->n_expert);
	for (unsigned i = 0; i < x->n_buffers; i++)
		x->buffer[i].buffer = experts_buffer(x->experts, i);
	return 0;
}

/* Release the experts in x->taken. To be called when all runs that read these
 * experts have ended. */
static void release_taken(struct session *s)
{
	struct mixture *x = &s->mix;

	for (uint32_t i = 0; i < x->n_taken; i++)
		experts_done(x->experts, x->taken[i].slot, s->time->npu_ps);
	x->n_taken = 0;
}

int session_attach_experts(struct session *s, struct err *e)
{
	struct mixture *x = &s->mix;
	int ret = session_pin_weights(s, &x->dense, e);

	/* release the experts that were in use by runs of a lost device */
	release_taken(s);
	for (unsigned i = 0; i < x->n_buffers && !ret; i++)
		ret = session_pin_weights(s, &x->buffer[i], e);
	if (ret == -ENOSPC)
		err_in(e,
			"%u of %u experts are to stay in memory, but do not "
			"fit into the window; try a smaller --dram-budget, "
			"or a device with --va-extended",
			s->plan.expert_slots,
			s->model->n_layer * s->model->n_expert);
	return ret;
}

void session_close_experts(struct session *s)
{
	struct mixture *x = &s->mix;

	experts_close(x->experts);
	buffer_close(x->dense.buffer);
	free(x->buffer);
	free(x->route);
	free(x->wanted);
	free(x->taken);
	free(x->ahead);
	free(x->scratch);
}

uint64_t session_expect_experts(const struct session *s, uint32_t rows)
{
	const struct model *m = s->model;
	const struct soc *soc = s->opts.soc;
	uint64_t all = (uint64_t)m->n_layer * m->n_expert;
	struct experts_stats st;
	struct price read;
	double absent, used;

	if (!s->mix.experts || s->plan.expert_slots >= all)
		return 0;
	experts_stats(s->mix.experts, &st);
	/* Probability that an expert is absent: the measured share of uses that
	 * needed a read or, before there are enough uses, the share of experts
	 * that have no slot. */
	absent = st.used >= all
		? 1 - (double)st.found / (double)st.used
		: 1 - (double)s->plan.expert_slots / (double)all;
	used = m->n_layer * price_experts(&s->pricing.layer[0], rows);
	price_flash(soc, s->block[1].bytes, &read);
	if (soc->flash_queue > 1)
		read.total_ps -= price_ps(soc->flash_read_s);
	return (uint64_t)(used * absent * (double)read.total_ps);
}

/* ---- choosing experts ---------------------------------------------------- */

/* Choose the experts of all rows from the router's scores. */
static void route_rows(struct pass *p)
{
	struct session *s = p->s;
	const struct model *m = s->model;
	size_t bytes = (size_t)p->run.rows * m->n_expert * sizeof(float);
	const float *score = buffer_begin(
		s->io.buffer, s->plan.scores_off, bytes, BUFFER_READ);
	struct price cost;

	for (uint32_t i = 0; i < p->run.rows; i++)
		route_row(score + (size_t)i * m->n_expert, m->n_expert,
			m->n_used, m->norm_picks,
			s->mix.route + (size_t)i * m->n_used);
	buffer_end(s->io.buffer, s->plan.scores_off, bytes, BUFFER_READ);
	if (!s->opts.soc)
		return;
	/* assume 16 operations for each score: an exponential and a comparison
	 */
	price_cpu(s->opts.soc, bytes, 16 * bytes / sizeof(float), &cost);
	session_add_work_of(s, TRACE_PHONE_WORK, &cost);
}

/* Whether the experts of the layer after block b are to be predicted. */
static bool goes_ahead(const struct pass *p, uint32_t b)
{
	const struct session *s = p->s;

	return s->opts.experts_ahead && p->run.rows <= AHEAD_ROWS &&
		b + 1 < s->n_blocks && !s->opts.idle &&
		s->plan.expert_slots < s->model->n_layer * s->model->n_expert;
}

/* Predict the experts of block b's layer from the states that were copied at
 * the input of the previous layer, and begin to read these experts. */
static void read_ahead(struct pass *p, uint32_t b)
{
	struct session *s = p->s;
	struct mixture *x = &s->mix;
	const struct model *m = s->model;
	const struct wire_tensor *t = s->block[b].tensor[0];
	const uint8_t *weights = weights_bytes(&s->block[b]);
	const struct wire_tensor *router = &t[WIRE_T_ROUTER];
	uint32_t rows = p->run.rows, n = s->opts.experts_ahead;
	float *h = x->ahead + AHEAD_ROWS * m->n_embd;
	float *score = h + AHEAD_ROWS * m->n_embd;
	const struct kern_rows in = { .x = h, .ldx = m->n_embd, .n = rows };
	struct price cost;

	n = n < m->n_used ? n : m->n_used;
	for (uint32_t i = 0; i < rows; i++)
		x->kern->rmsnorm(h + i * m->n_embd, x->ahead + i * m->n_embd,
			(const float *)(const void *)(weights +
				t[WIRE_T_FFN_NORM].offset),
			m->n_embd, m->norm_eps);
	kern_multiply(x->kern, score, m->n_expert, &in,
		(enum dtype)router->type, weights + router->offset, m->n_expert,
		m->n_embd, x->scratch);
	for (uint32_t i = 0; i < rows; i++)
		route_row(score + i * m->n_expert, m->n_expert, n, false,
			x->route + i * n);
	experts_ahead(x->experts, s->block[b].first_layer, x->wanted,
		route_experts(x->route, rows * n, m->n_expert, x->wanted));
	if (!s->opts.soc)
		return;
	if (!price_cpu_matmul(s->opts.soc, rows, m->n_expert, m->n_embd,
		    (enum dtype)router->type, &cost))
		session_add_work_of(s, TRACE_PHONE_WORK, &cost);
}

/* ---- runs ---------------------------------------------------------------- */

/* Write the picks (each row's experts and their weights) of a run of the
 * experts place[n] to one of the PICK_AREAS areas. Returns the offset of the
 * area in the activation buffer. */
static size_t write_picks(struct pass *p, const struct expert_place *place,
	uint32_t n, uint32_t area)
{
	struct session *s = p->s;
	size_t off = s->plan.picks_off + area * s->plan.pick_bytes;
	uint32_t picks = p->run.rows * s->model->n_used;
	size_t bytes = picks * sizeof(struct wire_pick);
	struct wire_pick *pick =
		buffer_begin(s->io.buffer, off, bytes, BUFFER_WRITE);
	uint32_t *at = s->mix.wanted;

	for (uint32_t i = 0; i < s->model->n_expert; i++)
		at[i] = WIRE_PICK_ELSEWHERE;
	for (uint32_t i = 0; i < n; i++)
		at[place[i].expert] = i;
	for (uint32_t i = 0; i < picks; i++)
		pick[i] = (struct wire_pick){ at[s->mix.route[i].expert],
			s->mix.route[i].weight };
	buffer_end(s->io.buffer, off, bytes, BUFFER_WRITE);
	return off;
}

/* Send a run of n experts. `more`: further runs for the same layer follow. */
static int send_experts(struct pass *p, uint32_t b,
	const struct expert_place *place, uint32_t n, uint32_t area, bool more,
	struct err *e)
{
	struct session *s = p->s;
	const struct block *block = &s->block[b];
	size_t picks = write_picks(p, place, n, area);
	struct wire_ref refs[WIRE_MAX_REFS];
	struct wire_graph_run run = { .op = WIRE_GRAPH_RUN,
		.graph = graph_id(s, b, p->kind),
		.rows = p->run.rows,
		.flags = session_flags(s) | (more ? WIRE_RUN_MORE : 0) };
	struct inflight f = { .run = { .block = b,
				      .rows = run.rows,
				      .graph_rows = p->graph_rows },
		.slot = -1,
		.swap = -1,
		.asked_ps = s->time->cpu_ps,
		.sent_ps = s->time->cpu_ps };
	unsigned n_refs = session_sync_refs(s, &s->io, refs);
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		const struct pinned *at = &s->mix.buffer[place[i].buffer];

		refs[n_refs++] = (struct wire_ref){
			.role = WIRE_REF_WEIGHTS,
			.flags = at->extended ? WIRE_REF_EXTENDED : 0,
			.addr = pinned_at(at, place[i].offset),
			.len = block->bytes,
		};
	}
	refs[n_refs++] = (struct wire_ref){
		.role = WIRE_REF_HIDDEN_OUT,
		.addr = pass_states_at(s, block->first_layer + 1, 0),
		.len = run.rows * s->model->n_embd * (uint32_t)sizeof(float),
	};
	refs[n_refs++] = (struct wire_ref){
		.role = WIRE_REF_ROWS,
		.addr = s->io.addr + (uint32_t)picks,
		.len = (uint32_t)s->plan.pick_bytes,
	};
	f.ring_bytes = session_ring_bytes(s, n_refs, sizeof(run));
	ret = npu_send(s->npu, refs, n_refs, &run, sizeof(run), &f.seq, e);
	if (!ret)
		inflight_add(s, &f);
	return ret;
}

/* Wait until the device has answered all requests, and release the experts that
 * these requests used. */
static int wait_for_device(struct session *s, struct err *e)
{
	int ret = inflight_wait(s, e);

	if (!ret)
		release_taken(s);
	return ret;
}

int pass_run_experts(struct pass *p, uint32_t b, struct err *e)
{
	struct session *s = p->s;
	struct mixture *x = &s->mix;
	const struct model *m = s->model;
	uint32_t layer = s->block[b].first_layer, left, runs = 0;
	/* wait for the results of the router */
	int ret = wait_for_device(s, e);

	if (ret)
		return ret;
	route_rows(p);
	/* Keep a copy of the states at the input of the layer, because the run
	 * of the experts overwrites them. */
	if (goes_ahead(p, b)) {
		size_t off = pass_states_at(s, layer, 0) - s->io.addr;
		size_t bytes = (size_t)p->run.rows * m->n_embd * sizeof(float);

		memcpy(x->ahead,
			buffer_begin(s->io.buffer, off, bytes, BUFFER_READ),
			bytes);
		buffer_end(s->io.buffer, off, bytes, BUFFER_READ);
	}
	left = route_experts(
		x->route, p->run.rows * m->n_used, m->n_expert, x->wanted);
	ret = experts_begin(x->experts, layer, x->wanted, left, e);
	while (left && !ret) {
		struct expert_place *place;
		uint32_t n = 0;

		/* Wait if the area for the picks may still be read by an
		 * earlier run. */
		if (runs >= PICK_AREAS)
			ret = wait_for_device(s, e);
		place = &x->taken[x->n_taken];
		if (!ret)
			ret = experts_take(x->experts,
				phone_later(s->time->npu_ps, s->began_ps),
				place, left < RUN_EXPERTS ? left : RUN_EXPERTS,
				&n, e);
		if (ret == -EAGAIN) {
			ret = wait_for_device(s, e);
			runs = 0;
			continue;
		}
		if (ret)
			break;
		x->n_taken += n;
		left -= n;
		ret = send_experts(
			p, b, place, n, runs++ % PICK_AREAS, left, e);
	}
	if (!ret && goes_ahead(p, b))
		read_ahead(p, s->order[b + 1]);
	return ret;
}
