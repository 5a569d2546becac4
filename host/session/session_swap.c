/*
 * Weights with --placement swap. Some units (parts of the blocks' weights,
 * session_plan.h) stay in the device's address window, in a few large
 * contiguous mappings. The other units are temporary: before a unit is used, it
 * is copied into one of two slots, which are used alternately
 * (host/memory/swap.h). If the device has an extended region (addresses outside
 * the window that only DMA can read), the last units are placed there, so that
 * fewer units, or none, must be copied.
 */
#include "host/session/session_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/memory/placement.h"
#include "host/memory/swap.h"
#include "host/memory/weights.h"
#include "host/npu/npu.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* poll interval while waiting for a copy, in microseconds */
#define LOOK_US 100

/* ---- the plan ------------------------------------------------------------ */

/* The run of a block for which copies are planned: a full run of the smallest
 * graph, whose rows attend to half of the context. A longer run hides the
 * copies that a short run hides; a diffusion model's largest graph has 1024
 * rows, but its passes have 32. */
static struct priced_run expected(const struct session *s, uint32_t block)
{
	const uint32_t rows = s->plan.graph_rows[0];

	return (struct priced_run){ block, rows, rows,
		(s->plan.context + 1) / 2, NULL, 0 };
}

/*
 * Expected time of running a unit (a part of a block's weights) on the phone.
 * Without a simulated phone, the number of bytes is used as the time of both
 * runs and copies: a pass of few rows reads its weights once, as a copy does.
 * So the plan is the same on every machine.
 */
static uint64_t unit_time(const struct session *s, const struct unit *u)
{
	struct priced_run run = expected(s, u->block);
	struct price p;

	if (!s->opts.soc)
		return u->bytes;
	if (u->last) {
		run.priced = u->layers.first -
			pricing_share(&s->pricing, u->block).first;
		pricing_run(&s->pricing, &run, &p);
	} else {
		pricing_layers(&s->pricing, &run, u->layers, &p);
	}
	return p.total_ps;
}

static struct price copy_price(const struct session *s, const struct unit *u)
{
	struct price p = { 0 };

	if (s->opts.soc)
		price_cpu(s->opts.soc, 2 * u->bytes, 0, &p);
	return p;
}

static int plan_places(struct session *s, uint32_t n, struct err *e)
{
	struct swap_op *op = calloc(n + 1, sizeof(*op));
	struct swap_room room = { .mapping = BUFFER_MAX };
	struct priced_run run;
	struct npu_room left;
	struct price p;
	uint32_t last = 0;
	int ret = 0;

	free(s->swapping.plan.place);
	s->swapping.plan = (struct swap_plan){
		.place = calloc(n + 1, sizeof(struct swap_place))
	};
	if (!op || !s->swapping.plan.place) {
		ret = err_set(e, ENOMEM,
			"no memory for the placement of %u units of weights",
			n);
		goto out;
	}
	/* nothing to copy: all units are in the extended region */
	if (!n)
		goto out;
	npu_room(s->npu, &left);
	room.bytes = left.largest;
	room.page = left.page;
	room.slots = left.slots;
	for (uint32_t i = 0; i < n; i++) {
		const struct unit *u = &s->unit[i];

		op[i].bytes = align_up(u->room, WEIGHTS_ALIGN);
		op[i].run = unit_time(s, u);
		op[i].copy = s->opts.soc ? copy_price(s, u).total_ps : u->bytes;
	}
	/* Copies continue while streamed blocks and units in the extended
	 * region run. So add the time of each such run to the time of the last
	 * planned unit that runs before it. */
	for (uint32_t i = 0; i < s->n_blocks; i++) {
		uint32_t b = s->order[i];

		if (s->block[b].streamed) {
			run = expected(s, b);
			if (s->opts.soc)
				pricing_run(&s->pricing, &run, &p);
			op[last].run +=
				s->opts.soc ? p.total_ps : s->block[b].bytes;
			continue;
		}
		for (uint32_t k = s->first_unit[b]; k < s->first_unit[b + 1];
			k++)
			if (k < n)
				last = k;
			else
				op[last].run += unit_time(s, &s->unit[k]);
	}
	ret = swap_plan(&s->swapping.plan, op, n, &room, e);
out:
	free(op);
	return ret;
}

/* Choose how many of the last units go into the extended region: the smallest
 * number with which all other units can stay in the device's window or, if
 * there is no such number, as many as fit into the region. */
static int plan_window(struct session *s, struct err *e)
{
	uint32_t n = s->n_units, least = n;
	struct npu_room room;
	uint64_t bytes, all = 0;

	npu_room(s->npu, &room);
	/* Find the lowest `least` for which all units from `least` on fit into
	 * the extended region. */
	for (; least; least--) {
		bytes = align_up(s->unit[least - 1].room, room.page);
		if (bytes > room.extended)
			break;
		room.extended -= bytes;
	}
	for (uint32_t i = 0; i < n; i++)
		all += s->unit[i].room;
	for (;; all -= s->unit[--n].room) {
		int ret;

		if (n > least && all > room.largest)
			continue;
		s->swapping.planned = n;
		ret = plan_places(s, n, e);
		if (n == least || (ret && ret != -ENOSPC) ||
			(!ret && !s->swapping.plan.temporary))
			return ret;
	}
}

/* ---- opening ------------------------------------------------------------- */

/* Create the buffers for the resident units, in the order in which the units
 * are used. */
static int open_residents(struct session *s, struct err *e)
{
	struct swapping *w = &s->swapping;

	w->resident = calloc(w->plan.mappings + 1, sizeof(*w->resident));
	if (!w->resident)
		return err_set(e, ENOMEM,
			"no memory for the list of %u mapped buffers",
			w->plan.mappings);
	for (uint32_t i = 0; i < w->plan.mappings; i++) {
		char name[BUFFER_NAME_MAX];
		uint64_t bytes = 0;
		int ret;

		for (uint32_t k = 0; k < w->planned; k++) {
			const struct swap_place *p = &w->plan.place[k];

			if (!p->temporary && p->mapping == i)
				bytes = p->at + s->unit[k].room;
		}
		snprintf(name, sizeof(name), "resident%u", i);
		/* With opts.as most of the mapping only reserves addresses, so
		 * huge pages would waste memory. */
		ret = buffer_create(&w->resident[i].buffer, name, bytes,
			BUFFER_DMA | (s->opts.as ? 0 : BUFFER_HUGE), e);
		if (ret)
			return ret;
		if (!s->opts.as)
			buffer_take_memory(w->resident[i].buffer, s->workers);
	}
	for (uint32_t i = 0; i < w->planned; i++) {
		const struct swap_place *p = &w->plan.place[i];

		if (!p->temporary && s->unit[i].last)
			weights_share(&s->block[s->unit[i].block],
				w->resident[p->mapping].buffer,
				(uint32_t)p->at);
	}
	return 0;
}

int session_plan_swap(struct session *s, struct err *e)
{
	bool by_layer = true;
	int ret = 0;

	if (s->n_units)
		ret = plan_window(s, e);
	if (ret && ret != -ENOSPC)
		return ret;
	for (uint32_t i = 0; i < s->n_units; i++)
		by_layer &=
			s->unit[i].layers.end <= s->unit[i].layers.first + 1;
	/* If some units must be copied, make each layer a separate unit. The
	 * two slots then take the least room in the device's window, and a
	 * layer is copied while other layers run. */
	if ((ret || s->swapping.plan.temporary) && !by_layer) {
		s->plan.least_blocks = s->plan.resident;
		s->plan.by_layer = true;
		ret = session_cut_blocks(s, e);
		if (!ret)
			ret = plan_window(s, e);
	}
	return ret ? ret : open_residents(s, e);
}

int session_open_swap(struct session *s, struct err *e)
{
	struct swapping *w = &s->swapping;
	uint32_t n = w->planned;
	struct swap_opts o = { .slot_bytes = w->plan.slot,
		.poison = s->opts.swap_poison,
		.time = s->opts.soc ? s->time : NULL,
		.trace = s->trace };
	struct swap_block *block;
	int ret;

	if (!w->plan.temporary)
		return 0;
	w->turn = calloc(n, sizeof(*w->turn));
	block = calloc(n, sizeof(*block));
	if (!w->turn || !block) {
		free(block);
		return err_set(e, ENOMEM,
			"no memory for the list of %u units of weights", n);
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct unit *u = &s->unit[i];
		const struct block *b = &s->block[u->block];

		if (!w->plan.place[i].temporary)
			continue;
		w->turn[i] = o.n;
		block[o.n++] = (struct swap_block){ .from = weights_bytes(b),
			.bytes = u->last ? b->bytes : 0,
			.counted = u->bytes,
			.price = copy_price(s, u) };
	}
	o.block = block;
	ret = swap_open(&w->swap, &o, e);
	free(block);
	for (unsigned i = 0; i < SWAP_SLOTS && !ret; i++)
		w->slot[i].buffer = swap_buffer(w->swap, i);
	return ret;
}

int session_attach_swap(struct session *s, struct err *e)
{
	struct swapping *w = &s->swapping;
	int ret = 0;

	/* Allocate the list of mappings of the units in the extended region;
	 * each unit has its own buffer. */
	free(w->beside);
	w->beside = calloc(s->n_units + 1, sizeof(*w->beside));
	if (!w->beside)
		return err_set(e, ENOMEM,
			"no memory for the placement of %u units of weights",
			s->n_units);
	for (uint32_t i = w->planned; i < s->n_units && !ret; i++) {
		w->beside[i].buffer = unit_buffer(s, &s->unit[i]);
		ret = session_pin_beside(s, &w->beside[i], e);
	}
	for (unsigned i = 0; w->swap && i < SWAP_SLOTS && !ret; i++)
		ret = session_pin(s, &w->slot[i], e);
	for (uint32_t i = 0; i < w->plan.mappings && !ret; i++)
		ret = session_pin(s, &w->resident[i], e);
	return ret;
}

void session_close_swap(struct session *s)
{
	struct swapping *w = &s->swapping;

	swap_close(w->swap);
	for (uint32_t i = 0; w->resident && i < w->plan.mappings; i++)
		buffer_close(w->resident[i].buffer);
	free(w->resident);
	free(w->beside);
	free(w->turn);
	free(w->plan.place);
}

/* ---- passes -------------------------------------------------------------- */

/*
 * Let the request *f hold the slot for a temporary unit's weights, and wait
 * until the copy of the weights into the slot is complete. The request holds
 * the slot even if this wait fails. Only the time during which the device is
 * idle counts as a stall.
 */
static int take_slot(
	struct session *s, uint32_t unit, struct inflight *f, struct err *e)
{
	struct swapping *w = &s->swapping;
	uint64_t ready, idle = 0;
	unsigned slot;
	int ret = 0;

	while (!ret && !swap_need(w->swap, w->turn[unit], &slot, &ready))
		ret = npu_wait(s->npu, inflight_oldest(s)->seq, e);
	if (ret)
		return ret;
	f->swap = (int)slot;
	for (;;) {
		if (!idle && !inflight_oldest(s))
			idle = clock_ns();
		if (swap_is_there(w->swap, slot, LOOK_US))
			break;
		ret = npu_poll(s->npu, e);
		if (ret)
			return ret;
	}
	s->stats.stall_ns += idle ? clock_ns() - idle : 0;
	if (s->opts.soc)
		phone_wait(s->time, ready);
	return 0;
}

/*
 * Simulate running a unit that is not the last of its block. Such units exist
 * only if the block stands for many layers of a larger model, so the real
 * device computes nothing. All earlier runs were answered, so in simulated
 * phone time the NPU has finished them.
 */
static int run_on_phone(
	struct session *s, uint32_t unit, struct inflight *f, struct err *e)
{
	const struct unit *u = &s->unit[unit];
	struct swapping *w = &s->swapping;
	bool temporary = unit < w->planned && w->plan.place[unit].temporary;
	struct phone_time *t = s->time;
	uint64_t asked = t->cpu_ps, end;
	struct price p;

	if (temporary) {
		int ret = take_slot(s, unit, f, e);

		if (ret)
			return ret;
		s->stats.stall_ps += phone_later(t->npu_ps, t->cpu_ps) -
			phone_later(t->npu_ps, asked);
	}
	pricing_layers(&s->pricing, &f->run, u->layers, &p);
	end = phone_npu(t, t->cpu_ps, &p);
	inflight_release_swap(s, f, end);
	f->run.priced += u->layers.end - u->layers.first;
	f->asked_ps = t->cpu_ps;
	return 0;
}

int session_find_swapped(
	struct session *s, uint32_t b, struct inflight *f, struct err *e)
{
	struct swapping *w = &s->swapping;
	uint32_t last = s->first_unit[b + 1] - 1;
	const struct swap_place *place = &w->plan.place[last];
	int ret = 0;

	if (w->swap && s->first_unit[b] < last)
		ret = inflight_answered(s, e);
	for (uint32_t i = s->first_unit[b]; w->swap && i < last && !ret; i++)
		ret = run_on_phone(s, i, f, e);
	if (ret)
		return ret;
	if (last >= w->planned) {
		f->weights = w->beside[last].addr;
		f->run.extended = true;
		return 0;
	}
	if (!place->temporary) {
		f->weights =
			w->resident[place->mapping].addr + (uint32_t)place->at;
		return 0;
	}
	ret = take_slot(s, last, f, e);
	if (!ret)
		f->weights = w->slot[f->swap].addr;
	return ret;
}

/* ---- counters ------------------------------------------------------------ */

void session_swap_stats(const struct session *s, struct session_stats *out)
{
	const struct swapping *w = &s->swapping;
	struct swap_stats st = { 0 };

	if (w->swap)
		swap_stats(w->swap, &st);
	out->copies = st.copies;
	out->copied_bytes = st.bytes;
	out->maps = w->plan.mappings + (w->swap ? SWAP_SLOTS : 0);
	out->resident_bytes = w->plan.resident_bytes;
	out->temporary_blocks = w->plan.temporary;
}
