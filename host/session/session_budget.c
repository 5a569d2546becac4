#include "host/session/session_budget.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/memory_left.h"
#include "flash/image.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/session/session.h"
#include "host/session/session_plan.h"

#include <errno.h>
#include <stdio.h>

#define MIB ((uint64_t)1 << 20)

/* What both processes take beside weights, cache and activations, of a model of
 * 1.5 B parameters: scratch memory, rings, vocabulary. */
#define BESIDE (32 * MIB)

static uint64_t layers_bytes(const struct model *m, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t l = 0; l < n; l++)
		bytes += packed_layer_bytes(m->packed, l);
	return bytes;
}

static uint64_t output_bytes(const struct model *m)
{
	const struct wire_tensor *w = &m->packed->output;

	return layout_bytes(w->type, w->rows, w->cols);
}

/* ---- choosing ---- */

/* The slots first: without them nothing comes. */
static int choose_by_size(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	uint64_t slot = weights_head_bytes(m) +
		staging_layer_bytes(m->packed->image, 0, m->n_layer);
	uint64_t room = o->dram_bytes, all = layers_bytes(m, m->n_layer);

	if (room >= all) {
		p->output_stays = room - all < output_bytes(m);
		return 0;
	}
	if (room < 2 * slot)
		return err_set(e, EINVAL,
			"--dram-budget of %.1f MiB, but layers are streamed "
			"through two slots at least, which are part of it: "
			"they take %.1f MiB; try --dram-budget %lluM, or a "
			"share like 0%%, beside which they are",
			(double)room / (double)MIB,
			(double)(2 * slot) / (double)MIB,
			(unsigned long long)((2 * slot + MIB - 1) / MIB));
	while (p->stage_slots * slot > room)
		p->stage_slots--;
	room -= p->stage_slots * slot;
	p->resident = 0;
	while (layers_bytes(m, p->resident + 1) <= room)
		p->resident++;
	return 0;
}

int session_budget_choose(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	int ret = 0;

	p->resident = m->n_layer;
	p->stage_slots = o->stage_slots;
	p->output_stays = false;
	if (!o->dram_bytes && o->dram_share >= 1)
		return 0;
	if (!m->packed)
		return err_set(e, EINVAL,
			"--dram-budget, but this model is no flash image, "
			"whose layers can be streamed; make one with tandem "
			"convert");
	if (o->dram_bytes)
		ret = choose_by_size(p, m, o, e);
	else /* 29 % of 100 is 29, not a little less. */
		p->resident = (uint32_t)(o->dram_share * m->n_layer + 1e-6);
	p->output_stays |= p->resident < m->n_layer;
	return ret;
}

/* ---- checking ---- */

static uint64_t slots_bytes(const struct session_plan *p)
{
	return p->stage_bytes ? p->stage_slots * p->stage_bytes : 0;
}

static uint64_t other_bytes(const struct session_plan *p)
{
	return BESIDE + p->kv_bytes + p->io_bytes;
}

/* A share that fits, to try. */
static void advise(const struct session_plan *p, const struct model *m,
	uint64_t left, char *buf, size_t size)
{
	uint64_t slot = weights_head_bytes(m) +
		staging_layer_bytes(m->packed->image, 0, m->n_layer);
	uint64_t need = other_bytes(p) + p->stage_slots * slot;
	uint32_t n = 0;

	while (n < p->resident && need + layers_bytes(m, n + 1) <= left)
		n++;
	if (need <= left)
		snprintf(buf, size, "try --dram-budget %u%%",
			n * 100 / m->n_layer);
	else if (need - (p->stage_slots - 2) * slot <= left)
		snprintf(buf, size, "try --dram-budget 0%% --stage-slots 2");
	else
		snprintf(buf, size,
			"not even streaming through two slots of %llu MiB "
			"fits: try a smaller model or a smaller --ctx",
			(unsigned long long)(slot / MIB));
}

int session_budget_check(const struct session_plan *p, const struct model *m,
	const struct memory_left *left, struct err *e)
{
	uint64_t layers, slots = slots_bytes(p), output, need;
	char try[128];

	if (!m->packed)
		return 0;
	layers = layers_bytes(m, p->resident);
	output = p->output_stays ? 0 : output_bytes(m);
	need = layers + slots + output + other_bytes(p);
	if (need <= left->bytes)
		return 0;
	advise(p, m, left->bytes, try, sizeof(try));
	return err_set(e, ENOMEM,
		"%llu MiB of memory are needed, for %u of %u layers %llu, for "
		"slots %llu, the output matrix %llu, the cache %llu, and all "
		"else %llu; %s has %llu left of %llu; %s",
		(unsigned long long)(need / MIB), p->resident, m->n_layer,
		(unsigned long long)(layers / MIB),
		(unsigned long long)(slots / MIB),
		(unsigned long long)(output / MIB),
		(unsigned long long)(p->kv_bytes / MIB),
		(unsigned long long)((p->io_bytes + BESIDE) / MIB), left->where,
		(unsigned long long)(left->bytes / MIB),
		(unsigned long long)(left->limit / MIB), try);
}
