/*
 * Preparing a pass for the device: the data that the CPU writes, the addresses
 * in requests, and the weights of each block, which may have to be streamed
 * from flash.
 */
#include "host/session/pass_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "host/session/batch.h"
#include "host/session/switching.h"
#include "host/trace/trace.h"
#include "shm/buffer.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <string.h>

/* number of memory ranges that a run uses (pass_bind), in addition to the
 * ranges to invalidate */
#define BIND_REFS 5
/* number of separate ranges that the CPU writes: the batch (positions, slots
 * and masks of the rows), the batches of the parts of a divided pass, the
 * states */
#define IO_RANGES 3

_Static_assert(BUFFER_RANGES + IO_RANGES + BIND_REFS <= WIRE_MAX_REFS,
	"a request must be able to name all that the CPU wrote");

int pass_write_batch(struct pass *b, const uint32_t *at, struct err *e)
{
	struct session *s = b->s;
	struct wire_graph_run *run = &b->run;
	size_t most = batch_bytes(s->batch->rows.n, s->plan.span_room), wrote;
	uint8_t *p = buffer_begin(s->io.buffer, 0, most, BUFFER_WRITE);
	int ret = batch_fill(
		p, s->batch, s->sequences, at, s->plan.span_room, run, e);

	if (ret) {
		buffer_end(s->io.buffer, 0, most, BUFFER_WRITE);
		return ret;
	}
	b->batch = batch_bytes(run->rows, run->n_spans);
	if (s->opts.as || s->pricing.by_cpu) {
		b->longest = batch_longest(p, run);
		b->pieces = batch_cut(p, run, s->cut);
	}
	wrote = batch_bytes(run->rows, run->n_spans ? run->n_spans : 1);
	buffer_end(s->io.buffer, 0, wrote, BUFFER_WRITE);
	return 0;
}

int pass_write_hidden(struct session *s, const struct rows *rows, struct err *e)
{
	size_t width = s->model->n_embd * sizeof(float);
	uint8_t *p = buffer_begin(s->io.buffer, s->plan.hidden_off,
		rows->n * width, BUFFER_WRITE);
	int ret = 0;

	for (uint32_t i = 0; i < rows->n && !ret; i++) {
		float *to = (float *)(void *)(p + i * width);

		if (rows->state)
			memcpy(to, rows->state[i], width);
		else
			ret = model_embed(
				s->model, (uint32_t)rows->row[i].token, to, e);
	}
	buffer_end(s->io.buffer, s->plan.hidden_off, rows->n * width,
		BUFFER_WRITE);
	return ret;
}

unsigned session_sync_refs(
	struct session *s, struct pinned *p, struct wire_ref *refs)
{
	const struct buffer_range *range;
	unsigned n = buffer_written(p->buffer, &range);

	for (unsigned i = 0; i < n; i++) {
		/* If the coherence level is "check", record the range in the
		 * trace, so that a violation reported by the device can be
		 * related to this write. */
		if (s->trace && s->brackets)
			trace_emit(s->trace,
				&(const struct trace_event){
					.type = TRACE_INSTANT,
					.name = TRACE_CPU_WRITE,
					.at = clock_ns(),
					.n = 3,
					.arg = { range[i].off, range[i].len,
						range[i].seq },
					.text = trace_text(
						s->trace, range[i].by),
					.flow = trace_write_flow(
						buffer_name(p->buffer),
						range[i].seq) });
		refs[i] = (struct wire_ref){
			.addr = p->addr + (uint32_t)range[i].off,
			.len = (uint32_t)range[i].len,
			.role = WIRE_REF_SYNC,
			.flags = WIRE_REF_INVALIDATE,
			.by = s->brackets
				? brackets_name(s->brackets, range[i].by)
				: 0,
			.cpu_seq = range[i].seq,
		};
	}
	buffer_written_clear(p->buffer);
	return n;
}

/* Maximum number of ranges of the cache that the CPU writes before a request
 * lets the device invalidate them. */
#define REPORT_RANGES 32
_Static_assert(REPORT_RANGES <= BUFFER_RANGES,
	"no ranges are joined before they are reported");

int session_report_kv(struct session *s, unsigned ranges, struct err *e)
{
	const struct wire_simple nop = { .op = WIRE_NOP };
	struct wire_ref refs[BUFFER_RANGES];
	const struct buffer_range *range;
	struct price as, maintenance;
	uint64_t bytes = 0;
	uint32_t seq;
	unsigned n;
	int ret;

	/* With two levels of cache the device does not invalidate ranges,
	 * because the next request flushes the whole cache anyway. */
	if (s->opts.contract == COHERENCE_TWO_LEVELS ||
		buffer_written(s->kv.buffer, &range) + ranges <= REPORT_RANGES)
		return 0;
	n = session_sync_refs(s, &s->kv, refs);
	for (unsigned i = 0; i < n; i++)
		bytes += refs[i].len;
	if (s->opts.as && s->opts.soc) {
		price_request(s->opts.soc, &as);
		s->instead_rings = session_ring_bytes(s, n, sizeof(nop));
		pricing_maintenance(
			&s->pricing, 0, bytes, s->instead_rings, &maintenance);
		price_add(&as, &maintenance);
		s->instead = &as;
	}
	npu_watch(s->npu, session_request_done, s);
	ret = npu_send(s->npu, refs, n, &nop, sizeof(nop), &seq, e);
	if (!ret)
		ret = npu_wait(s->npu, seq, e);
	s->instead = NULL;
	/* If the device was lost, do not repeat the request: the caches of the
	 * new device are empty, so nothing must be invalidated. */
	return session_recover(s, ret, e);
}

uint32_t pass_states_at(
	const struct session *s, uint32_t layers, uint32_t first_row)
{
	bool tapped = s->opts.tap_layers && layers == s->opts.tap_layers;
	size_t off = tapped ? s->plan.tap_off : s->plan.hidden_off;

	return s->io.addr +
		(uint32_t)(off + first_row * s->model->n_embd * sizeof(float));
}

unsigned pass_bind(const struct session *s, const struct inflight *f,
	const struct part *part, struct wire_ref *refs)
{
	const struct block *b = &s->block[f->run.block];
	uint32_t width = s->model->n_embd * (uint32_t)sizeof(float);
	uint32_t rows = part->run.rows;
	bool routes = b->part.end == WIRE_T_GATE && s->model->n_expert;
	const struct wire_ref bound[BIND_REFS] = {
		{ .role = WIRE_REF_WEIGHTS,
			.flags = f->run.extended ? WIRE_REF_EXTENDED : 0,
			.addr = f->weights,
			.len = b->bytes },
		{ .role = WIRE_REF_KV,
			.addr = s->kv.addr,
			.len = (uint32_t)s->stats.kv_bytes },
		{ .role = WIRE_REF_HIDDEN_IN,
			.addr = pass_states_at(s, b->first_layer, part->first),
			.len = rows * width },
		{ .role = WIRE_REF_HIDDEN_OUT,
			.addr = routes
				? s->io.addr + (uint32_t)s->plan.scores_off
				: pass_states_at(s,
					  b->first_layer + b->n_layers,
					  part->first),
			.len = routes ? rows * s->model->n_expert *
					(uint32_t)sizeof(float)
				      : rows * width },
		{ .role = WIRE_REF_ROWS,
			.addr = s->io.addr + (uint32_t)part->off,
			.len = (uint32_t)part->places },
	};

	memcpy(refs, bound, sizeof(bound));
	return BIND_REFS;
}

/* ---- weights ------------------------------------------------------------- */

/* Map a unit (a part of a block's weights) that is not mapped. Waits until all
 * earlier runs have ended; the device is idle while the unit is mapped. */
static int map_unit_now(
	struct session *s, uint32_t unit, struct inflight *f, struct err *e)
{
	const struct phone_time *t = s->time;
	uint64_t began_ns, began_ps;
	int ret = inflight_answered(s, e);

	if (ret)
		return ret;
	began_ns = clock_ns();
	began_ps = phone_later(t->cpu_ps, t->npu_ps);
	ret = placement_need(s->placement, unit, &f->weights, e);
	if (ret == -ENOSPC)
		session_refuse_window(s, e);
	s->stats.stall_ns += clock_ns() - began_ns;
	s->stats.stall_ps += phone_later(t->cpu_ps, t->npu_ps) - began_ps;
	f->asked_ps = t->cpu_ps;
	return ret;
}

static int find_staged(
	struct session *s, uint32_t b, struct inflight *f, struct err *e)
{
	unsigned where;
	int ret = 0;

	/* If the simulated phone reads ahead less than a whole layer, it reads
	 * the rest of the layer only after the earlier layers have been
	 * computed. */
	if (s->opts.soc && s->opts.soc->flash_ahead < 1)
		ret = inflight_wait(s, e);
	trace_begin(s->trace, TRACE_FLASH_WAIT, s->block[b].first_layer, 0);
	/* While a layer is being read, the device finishes the previous layer.
	 * Start the next read into the previous layer's slot as soon as the
	 * slot is free, so that flash is never idle. With a simulated phone
	 * this is not necessary, because slots become free in simulated phone
	 * time. */
	while (!ret && !s->opts.soc && !staging_look(s->staging)) {
		ret = npu_poll(s->npu, e);
		if (!ret)
			ret = inflight_retire(s, e);
	}
	if (!ret)
		ret = staging_need(s->staging, b - s->first_streamed,
			phone_later(s->time->npu_ps, s->began_ps), &where, e);
	trace_end(s->trace, TRACE_FLASH_WAIT);
	if (ret)
		return ret;
	f->slot = (int)where;
	f->weights = s->stage[where].addr;
	f->run.extended = s->stage[where].extended;
	/* Set asked_ps after waiting for flash: stall_ps must not include the
	 * time of this wait, which has separate counters. */
	f->asked_ps = s->time->cpu_ps;
	return 0;
}

int session_find_weights(
	struct session *s, uint32_t b, struct inflight *f, struct err *e)
{
	int ret = 0;

	if (s->block[b].streamed)
		return find_staged(s, b, f, e);
	if (s->mix.experts) {
		f->weights = pinned_at(&s->mix.dense, s->block[b].at);
		f->run.extended = s->mix.dense.extended;
		return 0;
	}
	if (!s->placement)
		return session_find_swapped(s, b, f, e);
	/* A block has several units if it stands for many layers of a larger
	 * model (opts.as). The device reads only the weights in the last unit.
	 * The other units may be unmapped to make room for the last unit: on a
	 * phone their layers would already have been computed. */
	for (uint32_t i = s->first_unit[b]; i < s->first_unit[b + 1] && !ret;
		i++) {
		ret = placement_is_mapped(s->placement, i)
			? placement_need(s->placement, i, &f->weights, e)
			: map_unit_now(s, i, f, e);
		f->run.extended = placement_is_extended(s->placement, i);
	}
	return ret;
}
