/*
 * What a session needs of its device: the buffers it shares, where the window
 * has them, the graphs, the phone. These steps can be repeated on another
 * device: all that a text is made of is the host's and in shared memory.
 */
#include "host/session/session_impl.h"

#include "base/err.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "host/session/switching.h"
#include "ipc/wire.h"
#include "shm/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what stays mapped --------------------------------------------------- */

/* The device is given it, and the tell knows it. */
static int share(
	struct session *s, struct buffer *b, uint32_t *id, struct err *e)
{
	int ret = npu_share(s->npu, b, id, e);

	if (s->tell)
		tell_watch(s->tell, b);
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
	int ret = share(s, p->buffer, &id, e), beside;

	p->extended = false;
	if (!ret)
		ret = pin_mapped(s, p, id, e);
	if (ret != -ENOSPC)
		return ret;
	beside = pin_extended(s, p, id, &why);
	if (!beside || beside == -ENOSPC)
		return beside;
	*e = why;
	return beside;
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
	if (!ret)
		ret = session_pin(s, &s->io, e);
	for (unsigned i = 0; s->staging && i < s->plan.stage_slots && !ret; i++)
		ret = session_pin_weights(s, &s->stage[i], e);
	return ret;
}

/* ---- what may be evicted ------------------------------------------------- */

static void count_map(struct session *s, uint64_t bytes)
{
	s->stats.bytes_mapped += bytes;
	if (!s->attached) /* it is being opened */
		return;
	s->stats.remaps++;
	s->stats.remap_bytes += bytes;
}

/* By one of the two ways to give the device a block. */
static int give_block(struct session *s, uint32_t block, uint32_t *addr,
	int (*way)(struct npu *, uint32_t, uint32_t *, struct err *),
	struct err *e)
{
	struct price as;
	int ret;

	if (s->opts.as && s->opts.soc) {
		pricing_map(&s->pricing, block,
			buffer_bytes(s->block[block].buffer), &as);
		s->instead = &as;
	}
	ret = way(s->npu, s->weights_id[block], addr, e);
	s->instead = NULL;
	return ret;
}

static int map_block(void *arg, uint32_t block, uint32_t *addr, struct err *e)
{
	struct session *s = arg;
	int ret = give_block(s, block, addr, npu_map, e);

	if (!ret)
		count_map(s, buffer_bytes(s->block[block].buffer));
	return ret;
}

static int extend_block(
	void *arg, uint32_t block, uint32_t *addr, struct err *e)
{
	return give_block(arg, block, addr, npu_map_extended, e);
}

/* Whatever still reads the block must be through first. */
static int unmap_block(void *arg, uint32_t block, uint32_t addr, struct err *e)
{
	struct session *s = arg;
	int ret = npu_drain(s->npu, e);

	if (!ret)
		ret = npu_unmap(s->npu, s->weights_id[block], e);
	if (!ret)
		s->stats.bytes_mapped -= buffer_bytes(s->block[block].buffer);
	return ret;
}

static int place_blocks(struct session *s, struct err *e)
{
	struct placement_window window = { map_block, extend_block, unmap_block,
		s };
	uint32_t n = 0; /* the resident ones */
	int ret = 0;

	if (s->opts.placement == PLACEMENT_SWAP)
		return session_attach_swap(s, e);
	for (; n < s->n_blocks && !s->block[n].streamed && !ret; n++)
		ret = npu_share(
			s->npu, s->block[n].buffer, &s->weights_id[n], e);
	if (!ret)
		ret = placement_open(
			&s->placement, n, s->opts.placement, &window, e);
	if (!ret)
		ret = placement_fill(s->placement, e);
	if (ret == -ENOSPC) /* of a fixed placement: no other asks for all */
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
		return err_set(e, ENOMEM, "no memory for a graph");
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

static int load_graphs(struct session *s, struct err *e)
{
	for (uint32_t b = 0; b < s->n_blocks; b++) {
		for (uint32_t k = 0; k < s->plan.n_graphs; k++) {
			int ret = session_load_graph(s, b, k, NULL, e);

			if (ret)
				return ret;
		}
	}
	return npu_drain(s->npu, e);
}

/* Whose requests these are, when nothing of another model is under way. */
static int tell_phone(struct session *s, struct err *e)
{
	npu_watch(s->npu, NULL, NULL);
	return s->opts.soc && s->owns_npu
		? npu_price_for(s->npu, s->opts.soc, e)
		: 0;
}

int session_attach_weights(struct session *s, struct err *e)
{
	int ret = place_blocks(s, e);

	if (!ret && !s->switching)
		ret = load_graphs(s, e);
	if (!ret)
		ret = tell_phone(s, e);
	s->attached = !ret;
	s->generation = npu_generation(s->npu);
	if (!ret && s->switching)
		ret = switching_attach(s, e);
	if (ret)
		s->attached = false;
	return ret;
}

/* ---- another device ------------------------------------------------------ */

/* Strips were cut for the first one. */
static int check_room(const struct session *s, struct err *e)
{
	uint32_t has = npu_welcome(s->npu)->tcm_share;

	if (has >= s->strip_max)
		return 0;
	return err_set(e, EPROTO,
		"the device that was reached instead has room for strips of "
		"%u KiB, the one before it had %u KiB",
		has >> 10, s->strip_max >> 10);
}

int session_reattach(struct session *s, struct err *e)
{
	int ret;

	s->attached = false;
	ret = s->owns_npu ? npu_reopen(s->npu, e) : 0;
	return ret ? ret : session_take_over(s, e);
}

int session_take_over(struct session *s, struct err *e)
{
	int ret = check_room(s, e);

	s->attached = false;
	if (ret)
		return ret;
	placement_close(s->placement);
	s->placement = NULL;
	ret = session_drop_flights(s, e);
	if (!ret)
		ret = session_attach_buffers(s, e);
	return ret ? ret : session_attach_weights(s, e);
}
