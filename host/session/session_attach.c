/*
 * Setting up a device for a session: shared buffers, their mappings in the
 * device's address window, graphs, and the cost model of the simulated phone.
 *
 * When the device is lost, it is replaced by a new device of the same kind, and
 * these steps are repeated. No data is lost, because all data is in memory that
 * the host shares with the device. The interrupted pass is run again from its
 * tokens, and claims cache slots again. The host does not read anything that
 * the lost device may have written only in part (docs/recovery.md).
 */
#include "host/session/session_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "host/session/switching.h"
#include "host/trace/trace.h"
#include "ipc/wire.h"
#include "shm/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- buffers that stay mapped -------------------------------------------- */

/* Share a buffer with the device. If CPU accesses are checked (s->brackets),
 * check accesses to this buffer too. */
static int share(
	struct session *s, struct buffer *b, uint32_t *id, struct err *e)
{
	int ret = npu_share(s->npu, b, id, e);

	if (s->brackets)
		brackets_watch(s->brackets, b);
	return ret;
}

static int pin_mapped(
	struct session *s, struct pinned *p, uint32_t id, struct err *e)
{
	int ret = npu_map(s->npu, id, &p->addr, e);

	if (!ret)
		s->stats.bytes_mapped += buffer_bytes(p->buffer);
	return ret;
}

static int pin_extended(
	struct session *s, struct pinned *p, uint32_t id, struct err *e)
{
	int ret = npu_map_extended(s->npu, id, &p->addr, e);

	p->extended = !ret;
	return ret;
}

int session_pin(struct session *s, struct pinned *p, struct err *e)
{
	uint32_t id;
	int ret = share(s, p->buffer, &id, e);

	return ret ? ret : pin_mapped(s, p, id, e);
}

int session_pin_weights(struct session *s, struct pinned *p, struct err *e)
{
	struct err why;
	uint32_t id;
	int ret = share(s, p->buffer, &id, e), fallback;

	p->extended = false;
	if (!ret)
		ret = pin_mapped(s, p, id, e);
	if (ret != -ENOSPC)
		return ret;
	fallback = pin_extended(s, p, id, &why);
	if (fallback && fallback != -ENOSPC)
		*e = why;
	return fallback;
}

int session_pin_beside(struct session *s, struct pinned *p, struct err *e)
{
	uint32_t id;
	int ret = share(s, p->buffer, &id, e);

	return ret ? ret : pin_extended(s, p, id, e);
}

int session_attach_buffers(struct session *s, struct err *e)
{
	int ret;

	s->stats.bytes_mapped = 0;
	ret = session_pin(s, &s->kv, e);
	for (unsigned i = 0; i < s->n_kv_more && !ret; i++)
		ret = session_pin(s, &s->kv_more[i], e);
	if (!ret)
		ret = session_pin(s, &s->io, e);
	if (!ret && s->output.buffer)
		ret = session_pin_weights(s, &s->output, e);
	for (unsigned i = 0; s->staging && i < s->plan.stage_slots && !ret; i++)
		ret = session_pin_weights(s, &s->stage[i], e);
	return ret;
}

/* ---- units that may be unmapped ----------------------------------------- */

/* Map a unit (a part of a block's weights) by calling `way`, which is npu_map
 * or npu_map_extended. */
static int give_unit(struct session *s, const struct unit *u, uint32_t *addr,
	int (*way)(struct npu *, uint32_t, uint32_t *, struct err *),
	struct err *e)
{
	struct price as, maintenance;
	int ret;

	if (s->opts.as && s->opts.soc) {
		pricing_map(&s->pricing,
			buffer_bytes(unit_buffer(s, u)) - (u->room - u->bytes),
			&as);
		s->instead_rings =
			session_ring_bytes(s, 0, sizeof(struct wire_map));
		pricing_maintenance(&s->pricing, u->block, 0, s->instead_rings,
			&maintenance);
		price_add(&as, &maintenance);
		s->instead = &as;
	}
	ret = way(s->npu, u->id, addr, e);
	s->instead = NULL;
	return ret;
}

static int map_unit(void *arg, uint32_t unit, uint32_t *addr, struct err *e)
{
	struct session *s = arg;
	const struct unit *u = &s->unit[unit];
	uint64_t bytes = buffer_bytes(unit_buffer(s, u));
	int ret = give_unit(s, u, addr, npu_map, e);

	if (ret)
		return ret;
	s->stats.bytes_mapped += bytes;
	/* count the mapping only if it is made after the session was opened */
	if (s->attached) {
		s->stats.remaps++;
		s->stats.remap_bytes += bytes;
	}
	return 0;
}

static int extend_unit(void *arg, uint32_t unit, uint32_t *addr, struct err *e)
{
	struct session *s = arg;

	return give_unit(s, &s->unit[unit], addr, npu_map_extended, e);
}

/* Unmap a unit (a part of a block's weights). First wait for all runs, because
 * any of them may read these weights. */
static int unmap_unit(void *arg, uint32_t unit, uint32_t addr, struct err *e)
{
	struct session *s = arg;
	const struct unit *u = &s->unit[unit];
	int ret = npu_drain(s->npu, 0, NULL, NULL, e);

	if (!ret)
		ret = npu_unmap(s->npu, u->id, e);
	if (!ret)
		s->stats.bytes_mapped -= buffer_bytes(unit_buffer(s, u));
	return ret;
}

static int place_blocks(struct session *s, struct err *e)
{
	struct placement_window window = { map_unit, extend_unit, unmap_unit,
		s };
	int ret = 0;

	if (s->opts.placement == PLACEMENT_SWAP)
		return session_attach_swap(s, e);
	if (s->mix.experts) {
		ret = session_attach_experts(s, e);
		if (ret)
			return ret;
	}
	for (uint32_t i = 0; i < s->n_units && !ret; i++)
		ret = npu_share(
			s->npu, unit_buffer(s, &s->unit[i]), &s->unit[i].id, e);
	if (!ret)
		ret = placement_open(&s->placement, s->n_units,
			s->opts.placement, &window, e);
	if (!ret)
		ret = placement_fill(s->placement, e);
	/* only the fixed placement, which maps all blocks at once, can fail
	 * with -ENOSPC here */
	if (ret == -ENOSPC)
		err_in(e,
			"--placement fixed keeps all %.1f MiB of weights "
			"mapped; try --placement swap",
			(double)s->stats.weight_bytes / (1 << 20));
	return ret;
}

/* ---- graphs -------------------------------------------------------------- */

struct wire_model session_wire_model(const struct session *s)
{
	const struct model *m = s->model;

	return (struct wire_model){
		.n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_rot = m->n_rot,
		.n_ff = m->n_ff,
		.rope_neox = m->rope_neox,
		.precision = s->opts.precision,
		.norm_eps = m->norm_eps,
		.attn_scale = (float)(1 / sqrt(m->head_dim)),
		.kv_slots = s->plan.slots,
		.kv_stride = s->plan.kv_stride,
		.n_expert = m->n_expert,
		.n_used = m->n_used,
		.n_shared = m->n_shared,
	};
}

int session_load_graph(struct session *s, uint32_t block, uint32_t kind,
	uint32_t *seq, struct err *e)
{
	const struct block *b = &s->block[block];
	size_t tensors = b->n_layers * sizeof(*b->tensor);
	bool whole = block_begins(b) && block_ends(b);
	size_t bytes = sizeof(struct wire_graph_load) + tensors +
		(whole ? 0 : sizeof(b->part));
	struct wire_graph_load *msg = malloc(bytes);
	int ret;

	if (!msg)
		return err_set(
			e, ENOMEM, "no memory for the description of a graph");
	*msg = (struct wire_graph_load){ .op = WIRE_GRAPH_LOAD,
		.graph = graph_id(s, block, kind),
		.rows = s->plan.graph_rows[kind],
		.first_layer = b->first_layer,
		.n_layers = b->n_layers,
		.weights_bytes = b->bytes,
		.model = session_wire_model(s),
		.rope_freq = b->rope_freq };
	memcpy(msg + 1, b->tensor, tensors);
	memcpy((uint8_t *)(msg + 1) + tensors, &b->part,
		bytes - sizeof(*msg) - tensors);
	ret = npu_send(s->npu, NULL, 0, msg, bytes, seq, e);
	free(msg);
	return ret;
}

/* Load the output graphs, which predict the likeliest next tokens: one for each
 * number of rows in plan.graph_rows. Graph switching does not unload these
 * graphs. */
static int load_output_graphs(struct session *s, struct err *e)
{
	struct {
		struct wire_graph_load g;
		struct wire_output output;
	} msg = { { .op = WIRE_GRAPH_LOAD,
			  .weights_bytes = (uint32_t)s->plan.output_room,
			  .model = session_wire_model(s) },
		s->output_graph };
	int ret = 0;

	for (uint32_t kind = 0;
		s->output.buffer && kind < s->plan.n_graphs && !ret; kind++) {
		msg.g.graph = graph_id(s, s->n_blocks, kind);
		msg.g.rows = s->plan.graph_rows[kind];
		ret = npu_send(s->npu, NULL, 0, &msg, sizeof(msg), NULL, e);
	}
	return ret;
}

int session_attach_weights(struct session *s, struct err *e)
{
	int ret = place_blocks(s, e);

	for (uint32_t b = 0; b < s->n_blocks && !s->switching; b++)
		for (uint32_t k = 0; k < s->plan.n_graphs && !ret; k++)
			ret = session_load_graph(s, b, k, NULL, e);
	if (!ret)
		ret = load_output_graphs(s, e);
	if (!ret)
		ret = npu_drain(s->npu, 0, NULL, NULL, e);
	/* A pass sets the handler of completions when it begins. Remove the
	 * handler that an interrupted pass may have left. */
	if (!ret)
		npu_watch(s->npu, NULL, NULL);
	if (!ret && s->opts.soc && s->owns_npu)
		ret = npu_price_for(s->npu, s->opts.soc, e);
	s->attached = !ret;
	s->generation = npu_generation(s->npu);
	if (!ret && s->switching)
		ret = switching_attach(s, e);
	if (ret)
		s->attached = false;
	return ret;
}

/* ---- replacing a lost device --------------------------------------------- */

int session_take_over(struct session *s, struct err *e)
{
	uint32_t has = npu_welcome(s->npu)->tcm_share;
	int ret;

	s->attached = false;
	/* The layout of the weights fits the local memory of the first device,
	 * so the new device must have at least as much local memory. */
	if (has < s->strip_max)
		return err_set(e, EPROTO,
			"the replacement device has too little local memory: "
			"it has room for strips (weights of 32 outputs) of "
			"%u KiB, but this session's strips have up to %u "
			"KiB; start a device with as much local memory as "
			"the lost one",
			has >> 10, s->strip_max >> 10);
	placement_close(s->placement);
	s->placement = NULL;
	ret = session_drop_inflight(s, e);
	if (!ret)
		ret = session_attach_buffers(s, e);
	return ret ? ret : session_attach_weights(s, e);
}

static int reach(struct session *s, struct err *e)
{
	int ret;

	if (!s->owns_npu) {
		ret = reach(s->opts.beside, e);
		return ret ? ret : session_take_over(s->opts.beside, e);
	}
	return npu_reopen(s->npu, e);
}

int session_follow(struct session *s, struct err *e)
{
	if (!s->attached || s->generation == npu_generation(s->npu))
		return 0;
	return session_take_over(s, e);
}

/* Replace the lost device. If the new device is lost as well, replace that
 * device too, as long as restarts are left. *e changes only on failure. */
static int recover(struct session *s, int lost,
	int (*attach)(struct session *, struct err *), struct err *e)
{
	uint64_t began = clock_ns(), took;
	struct err how = { 0 }, why;
	char text[ERR_TEXT_MAX + 80];
	int ret = lost;

	if (e)
		how = *e;
	why = how;
	while (ret && npu_may_reopen(s->npu, ret, &why)) {
		trace_begin(s->trace, TRACE_RESTART, npu_generation(s->npu), 0);
		ret = reach(s, &why);
		if (!ret)
			ret = attach(s, &why);
		trace_end(s->trace, TRACE_RESTART);
	}
	if (ret) {
		if (e)
			*e = why;
		return why.code == -ERR_DEVICE_LOST ? why.code : ret;
	}
	took = clock_ns() - began;
	npu_restarted(s->npu, took);
	/* The message must fit on one line of a terminal. */
	snprintf(text, sizeof(text),
		"%s; another device (pid %d) took its place within %.1f ms",
		how.text, (int)npu_pid(s->npu), (double)took / 1e6);
	if (s->opts.notice.report)
		s->opts.notice.report(s->opts.notice.arg, text);
	return 0;
}

int session_recover(struct session *s, int lost, struct err *e)
{
	return lost ? recover(s, lost, session_take_over, e) : 0;
}

int session_attach_part(struct session *s,
	int (*attach)(struct session *, struct err *), struct err *e)
{
	int ret = attach(s, e);

	return ret ? recover(s, ret, attach, e) : 0;
}
