/*
 * Weights with --placement swap. Some blocks stay in the window, contiguous in
 * a few large mappings. The other blocks are temporary: they are copied in turn
 * into two slots, before they are used (host/memory/swap.h). If the device has
 * an extended region (addresses outside the window that only DMA can read), the
 * last blocks are placed there, so that fewer blocks, or none, must be copied.
 */
#include "host/session/session_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/memory/placement.h"
#include "host/memory/swap.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* poll interval while waiting for a copy, in microseconds */
#define LOOK_US 100

/* ---- the plan ------------------------------------------------------------ */

/* Number of resident blocks. Resident blocks have the lowest numbers; all
 * others are streamed. */
static uint32_t blocks_in_memory(const struct session *s)
{
	uint32_t n = 0;

	while (n < s->n_blocks && !s->block[n].streamed)
		n++;
	return n;
}

/*
 * Expected time of running a block on the phone, at half of the context length.
 * Without a simulated phone the number of bytes is used as the time, both of
 * runs and of copies: a pass of few rows reads its weights once, as a copy
 * does. So the plan is the same on every machine.
 */
static uint64_t run_time(const struct session *s, uint32_t block)
{
	const uint32_t rows = s->plan.graph_rows[s->plan.decode_graph];
	const struct priced_run run = { block, rows, rows,
		(s->plan.context + 1) / 2, NULL, 0 };
	struct price p;

	if (!s->opts.soc)
		return s->block[block].bytes;
	pricing_run(&s->pricing, &run, &p);
	return p.total_ps;
}

static struct price copy_price(const struct session *s, uint32_t block)
{
	struct price p = { 0 };

	if (s->opts.soc)
		pricing_copy(&s->pricing, block, &p);
	return p;
}

static int plan_places(struct session *s, uint32_t n, struct err *e)
{
	struct swap_op *op = calloc(n + 1, sizeof(*op));
	struct swap_room room = { .mapping = BUFFER_MAX };
	struct npu_room left;
	uint32_t last = 0;
	int ret;

	free(s->swapping.plan.place);
	s->swapping.plan = (struct swap_plan){
		.place = calloc(n + 1, sizeof(struct swap_place))
	};
	if (!n && op) { /* all blocks are in the extended region */
		free(op);
		return 0;
	}
	if (!op || !s->swapping.plan.place) {
		free(op);
		return err_set(e, ENOMEM, "no memory to place %u blocks", n);
	}
	npu_room(s->npu, &left);
	room.bytes = left.largest;
	room.page = left.page;
	room.slots = left.slots;
	for (uint32_t i = 0; i < n; i++) {
		op[i].bytes = align_up(s->block[i].bytes, WEIGHTS_ALIGN);
		op[i].run = run_time(s, i);
		op[i].copy = s->opts.soc ? copy_price(s, i).total_ps
					 : s->block[i].bytes;
	}
	/* Copies continue while streamed blocks run, so add the time of these
	 * blocks to that of the preceding resident block. */
	for (uint32_t i = 0; n && i < s->n_blocks; i++)
		if (s->order[i] < n)
			last = s->order[i];
		else
			op[last].run += run_time(s, s->order[i]);
	ret = swap_plan(&s->swapping.plan, op, n, &room, e);
	free(op);
	return ret;
}

/* Choose how many of the last blocks go into the extended region: as few as
 * allow all other blocks to stay in the window or, if that is not possible, as
 * many as fit. */
static int plan_window(struct session *s, struct err *e)
{
	uint32_t n = blocks_in_memory(s), least = n;
	struct npu_room room;
	uint64_t bytes, all = 0;

	npu_room(s->npu, &room);
	/* Blocks from number `least` on fit into the extended region. */
	for (; least; least--) {
		bytes = align_up(s->block[least - 1].bytes, room.page);
		if (bytes > room.extended)
			break;
		room.extended -= bytes;
	}
	for (uint32_t i = 0; i < n; i++)
		all += s->block[i].bytes;
	for (;; all -= s->block[--n].bytes) {
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

/* Create the mappings of the resident blocks, in the order in which the blocks
 * are used. */
static int open_residents(struct session *s, struct err *e)
{
	struct swapping *w = &s->swapping;

	w->resident = calloc(w->plan.mappings + 1, sizeof(*w->resident));
	if (!w->resident)
		return err_set(e, ENOMEM, "no memory for %u mappings",
			w->plan.mappings);
	for (uint32_t i = 0; i < w->plan.mappings; i++) {
		char name[BUFFER_NAME_MAX];
		uint64_t bytes = 0;
		int ret;

		for (uint32_t b = 0; b < w->planned; b++) {
			const struct swap_place *p = &w->plan.place[b];

			if (!p->temporary && p->mapping == i)
				bytes = p->at + s->block[b].bytes;
		}
		snprintf(name, sizeof(name), "resident%u", i);
		ret = buffer_create(&w->resident[i].buffer, name, bytes,
			BUFFER_DMA | BUFFER_HUGE, e);
		if (ret) {
			w->resident[i].buffer = NULL;
			return ret;
		}
		buffer_take_memory(w->resident[i].buffer, s->workers);
	}
	for (uint32_t i = 0; i < w->planned; i++) {
		const struct swap_place *p = &w->plan.place[i];

		if (!p->temporary)
			weights_share(&s->block[i],
				w->resident[p->mapping].buffer,
				(uint32_t)p->at);
	}
	return 0;
}

int session_plan_swap(struct session *s, struct err *e)
{
	int ret = 0;

	if (blocks_in_memory(s))
		ret = plan_window(s, e);
	if (ret && ret != -ENOSPC)
		return ret;
	/* If some blocks must be copied, make each layer a block. The two slots
	 * then take the least room in the window, and copies overlap runs of
	 * other layers. */
	if ((ret || s->swapping.plan.temporary) &&
		blocks_in_memory(s) != s->plan.resident) {
		s->plan.least_blocks = s->plan.resident;
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
		return err_set(e, ENOMEM, "no memory for %u blocks", n);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!w->plan.place[i].temporary)
			continue;
		w->turn[i] = o.n;
		block[o.n].from = weights_bytes(&s->block[i]);
		block[o.n].bytes = s->block[i].bytes;
		block[o.n].price = copy_price(s, i);
		o.n++;
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

	/* Allocate mappings for the blocks in the extended region; each block
	 * has its own buffer. */
	free(w->beside);
	w->beside = calloc(s->n_blocks, sizeof(*w->beside));
	if (!w->beside)
		return err_set(
			e, ENOMEM, "no memory to place %u blocks", s->n_blocks);
	for (uint32_t i = w->planned; i < blocks_in_memory(s) && !ret; i++) {
		w->beside[i].buffer = s->block[i].buffer;
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

/* Wait until a copy into the slot is complete. Only the time during which the
 * device is idle counts as a stall. */
static int await_copy(struct session *s, unsigned slot, struct err *e)
{
	uint64_t idle = 0;
	int ret = 0;

	for (;;) {
		if (!idle && !inflight_oldest(s))
			idle = clock_ns();
		if (swap_is_there(s->swapping.swap, slot, LOOK_US))
			break;
		ret = npu_poll(s->npu, e);
		if (ret)
			return ret;
	}
	s->stats.stall_ns += idle ? clock_ns() - idle : 0;
	return 0;
}

int session_find_swapped(
	struct session *s, uint32_t b, struct inflight *f, struct err *e)
{
	struct swapping *w = &s->swapping;
	const struct swap_place *place = &w->plan.place[b];
	uint64_t ready;
	unsigned slot;
	int ret;

	if (b >= w->planned) {
		f->weights = w->beside[b].addr;
		f->run.extended = true;
		return 0;
	}
	if (!place->temporary) {
		f->weights =
			w->resident[place->mapping].addr + (uint32_t)place->at;
		return 0;
	}
	while (!swap_need(w->swap, w->turn[b], &slot, &ready)) {
		ret = npu_wait(s->npu, inflight_oldest(s)->seq, e);
		if (ret)
			return ret;
	}
	f->swap = (int)slot;
	f->weights = w->slot[slot].addr;
	ret = await_copy(s, slot, e);
	if (!ret && s->opts.soc)
		phone_wait(s->time, ready);
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
