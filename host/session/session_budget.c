#include "host/session/session_budget.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/memory_left.h"
#include "flash/image.h"
#include "host/memory/experts.h"
#include "host/memory/layer_parts.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/session/session.h"
#include "host/session/session_plan.h"
#include "ipc/wire.h"

#include <errno.h>
#include <stdio.h>

#define MIB ((uint64_t)1 << 20)
/* number of parts per layer if slots for whole layers need too much memory */
#define PARTS 4

/* Memory of both processes for everything except weights, cache and
 * activations: scratch memory, rings, vocabulary. Measured for a model of 1.5 B
 * parameters. */
#define BESIDE (32 * MIB)

_Static_assert(SESSION_STAGE_PARTS == LAYER_PARTS_MAX,
	"both limit the number of parts of a layer");

/* Total bytes of the resident layers if n layers are resident. */
static uint64_t layers_bytes(
	const struct session_plan *p, const struct model *m, uint32_t n)
{
	const struct residency r = residency_of(m->n_layer, n, p->runs);
	uint64_t bytes = 0;

	for (uint32_t l = 0; l < m->n_layer; l++)
		if (!residency_streams(&r, l))
			bytes += packed_layer_bytes(m->packed, l);
	return bytes;
}

static uint64_t output_bytes(const struct model *m)
{
	const struct wire_tensor *w = &m->packed->output;

	return layout_bytes(w->type, w->rows, w->cols);
}

size_t session_budget_slot(const struct model *m,
	const struct residency *residency, unsigned parts)
{
	const struct staging_opts o = { .residency = *residency,
		.parts = parts,
		.tensor = m->packed->layer };

	return weights_head_bytes(m) + staging_slot_bytes(m->packed->image, &o);
}

/* Bytes of a staging slot (a buffer for streamed layers) that can hold any
 * layer of the model. */
static size_t any_slot(const struct model *m, unsigned parts)
{
	const struct residency none = residency_of(m->n_layer, 0, 1);

	return session_budget_slot(m, &none, parts);
}

/* Whether layers may be cut into parts if slots for whole layers need too much
 * memory. Each part of a layer needs its own graphs, and a second model may
 * need as many graphs again, but the number of graphs is limited. */
static bool may_part(const struct model *m, const struct session_opts *o)
{
	return !o->stage_parts && staging_parts_may(m->packed->image) &&
		2 * MAX_GRAPHS * (PARTS * (uint64_t)m->n_layer + 1) <=
		WIRE_MAX_GRAPHS;
}

/* ---- choosing which weights stay in memory ---- */

/* Reserve memory for slots before memory for resident layers, because nothing
 * can be streamed without slots. */
static int choose_by_size(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	uint64_t slot = any_slot(m, p->stage_parts);
	uint64_t room = o->dram_bytes, all = layers_bytes(p, m, m->n_layer);
	uint64_t output =
		packed_may_stay(m->packed, IMAGE_OUTPUT) ? output_bytes(m) : 0;

	if (room >= all + output)
		return 0;
	if (room < p->stage_slots * slot && may_part(m, o)) {
		p->stage_parts = PARTS;
		slot = any_slot(m, PARTS);
	}
	if (room < 2 * slot)
		return err_set(e, EINVAL,
			"--dram-budget of %.1f MiB is too small: it includes "
			"two staging slots%s, which take %.1f MiB; try "
			"--dram-budget %lluM, or a share like 0%%, which "
			"does not include the slots",
			(double)room / (double)MIB,
			p->stage_parts > 1 ? "for parts of layers" : "",
			(double)(2 * slot) / (double)MIB,
			(unsigned long long)((2 * slot + MIB - 1) / MIB));
	while (p->stage_slots * slot > room)
		p->stage_slots--;
	room -= p->stage_slots * slot;
	p->output_streamed = room < output;
	if (!p->output_streamed)
		room -= output;
	/* Stream at least one layer, even if all layers fit into the remaining
	 * memory. They fit only if the output matrix is streamed, which needs
	 * slots, and a session without streamed layers creates no slots. */
	p->resident = 0;
	while (p->resident + 1 < m->n_layer &&
		layers_bytes(p, m, p->resident + 1) <= room)
		p->resident++;
	return 0;
}

/* Choose how many experts stay in memory. All other weights always stay in
 * memory. */
static int choose_experts(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	uint64_t one = experts_slot_bytes(m, p->layout, SIZE_MAX);
	uint64_t all = layers_bytes(p, m, m->n_layer) + output_bytes(m);
	uint32_t n = p->expert_slots;
	uint64_t least = all + EXPERTS_SLOTS_MIN * one;

	if (o->dram_bytes && o->dram_bytes < least)
		return err_set(e, EINVAL,
			"--dram-budget of %.1f MiB is too small: the weights "
			"other than experts, plus %u experts, take %.1f "
			"MiB; try --dram-budget %lluM, or a share of the "
			"experts like 20%%",
			(double)o->dram_bytes / (double)MIB, EXPERTS_SLOTS_MIN,
			(double)least / (double)MIB,
			(unsigned long long)((least + MIB - 1) / MIB));
	if (o->dram_bytes)
		n = (o->dram_bytes - all) / one < n
			? (uint32_t)((o->dram_bytes - all) / one)
			: n;
	else
		n = (uint32_t)(o->dram_share * n + 1e-6);
	p->expert_slots = n > EXPERTS_SLOTS_MIN ? n : EXPERTS_SLOTS_MIN;
	return 0;
}

int session_budget_choose(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	int ret = 0;

	p->resident = m->n_layer;
	p->stage_slots = o->stage_slots;
	p->stage_parts = o->stage_parts ? o->stage_parts : 1;
	p->output_streamed = false;
	p->expert_slots = m->n_layer * m->n_expert;
	if (!o->dram_bytes && o->dram_share >= 1)
		return 0;
	if (m->layers_packed < m->n_layer)
		return err_set(e, EINVAL,
			"--dram-budget needs a flash image, but this model "
			"is in a GGUF file; convert the file with tandem "
			"convert");
	if (m->n_expert)
		return choose_experts(p, m, o, e);
	if (p->stage_parts > 1 && !staging_parts_may(m->packed->image))
		return err_set(e, EINVAL,
			"--stage-parts %u is not possible: the layers of "
			"this image are compressed, so they can only be "
			"read whole; leave --stage-parts out, or convert "
			"the model without --zstd",
			p->stage_parts);
	if (o->dram_bytes)
		ret = choose_by_size(p, m, o, e);
	/* The small margin prevents a rounding error: 29 % of 100 layers must
	 * be 29 layers, not 28. */
	else
		p->resident = (uint32_t)(o->dram_share * m->n_layer + 1e-6);
	return ret;
}

/* ---- checking the free memory ---- */

static uint64_t other_bytes(const struct session_plan *p)
{
	return BESIDE + p->kv_bytes + p->io_bytes;
}

/* The largest percentage of the layers that fits into `left` bytes together
 * with the slots; the output matrix is streamed if possible. Returns -1 if even
 * the slots do not fit. */
static int share_left(const struct session_plan *p, const struct model *m,
	unsigned slots, unsigned parts, uint64_t left)
{
	uint64_t output =
		packed_may_stay(m->packed, IMAGE_OUTPUT) ? 0 : output_bytes(m);
	uint64_t need = other_bytes(p) + output + slots * any_slot(m, parts);
	uint32_t n = 0;

	if (need > left)
		return -1;
	while (n < p->resident && need + layers_bytes(p, m, n + 1) <= left)
		n++;
	return (int)(n * 100 / m->n_layer);
}

static uint64_t experts_bytes(
	const struct session_plan *p, const struct model *m)
{
	return p->expert_slots
		? p->expert_slots * experts_slot_bytes(m, p->layout, SIZE_MAX)
		: 0;
}

static uint64_t needs(const struct session_plan *p, const struct model *m)
{
	uint64_t output = p->output_streamed ? 0 : output_bytes(m);

	return layers_bytes(p, m, p->resident) +
		p->stage_slots * p->stage_bytes + output + other_bytes(p) +
		experts_bytes(p, m);
}

static int refuse_experts(const struct session_plan *p, const struct model *m,
	const struct memory_left *left, struct err *e)
{
	uint64_t one = experts_slot_bytes(m, p->layout, SIZE_MAX);
	uint64_t rest = needs(p, m) - experts_bytes(p, m);
	uint64_t fit = left->bytes > rest ? (left->bytes - rest) / one : 0;
	char try[64] = "not even two experts fit: try a smaller model";

	if (fit >= EXPERTS_SLOTS_MIN)
		snprintf(try, sizeof(try), "try --dram-budget %u%%",
			(unsigned)(fit * 100 /
				((uint64_t)m->n_layer * m->n_expert)));
	return err_set(e, ENOMEM,
		"%llu MiB of memory are needed (%u of %u experts %llu, other "
		"memory %llu), but %s has only %llu of %llu MiB left; %s",
		(unsigned long long)(needs(p, m) / MIB), p->expert_slots,
		m->n_layer * m->n_expert,
		(unsigned long long)(experts_bytes(p, m) / MIB),
		(unsigned long long)(rest / MIB), left->where,
		(unsigned long long)(left->bytes / MIB),
		(unsigned long long)(left->limit / MIB), try);
}

static int refuse(const struct session_plan *p, const struct model *m,
	const struct session_opts *o, const struct memory_left *left,
	struct err *e)
{
	unsigned parts = may_part(m, o) ? PARTS : p->stage_parts;
	int share =
		share_left(p, m, p->stage_slots, p->stage_parts, left->bytes);
	char try[128];

	if (share < 0)
		share = share_left(p, m, p->stage_slots, parts, left->bytes);
	if (share >= 0)
		snprintf(try, sizeof(try), "try --dram-budget %d%%", share);
	else if (share_left(p, m, 2, parts, left->bytes) >= 0)
		snprintf(try, sizeof(try),
			"try --dram-budget 0%% --stage-slots 2");
	else
		snprintf(try, sizeof(try),
			"not even streaming through two slots of %.1f MiB "
			"fits: try a smaller model or a smaller --ctx",
			(double)any_slot(m, parts) / (double)MIB);
	return err_set(e, ENOMEM,
		"%llu MiB of memory are needed (%u of %u layers %llu, "
		"staging slots %llu, output matrix %llu, cache %llu, other "
		"memory %llu), but %s has only %llu of %llu MiB left; %s",
		(unsigned long long)(needs(p, m) / MIB), p->resident,
		m->n_layer,
		(unsigned long long)(layers_bytes(p, m, p->resident) / MIB),
		(unsigned long long)(p->stage_slots * p->stage_bytes / MIB),
		(unsigned long long)(p->output_streamed
				? 0
				: output_bytes(m) / MIB),
		(unsigned long long)(p->kv_bytes / MIB),
		(unsigned long long)((p->io_bytes + BESIDE) / MIB), left->where,
		(unsigned long long)(left->bytes / MIB),
		(unsigned long long)(left->limit / MIB), try);
}

int session_budget_fit(struct session_plan *p, const struct model *m,
	const struct session_opts *o, const struct memory_left *left,
	struct err *e)
{
	const struct residency residency =
		residency_of(m->n_layer, p->resident, p->runs);

	if (m->layers_packed < m->n_layer || needs(p, m) <= left->bytes)
		return 0;
	if (m->n_expert)
		return refuse_experts(p, m, left, e);
	if (p->stage_bytes && p->stage_parts == 1 && may_part(m, o)) {
		p->stage_parts = PARTS;
		p->stage_bytes = session_budget_slot(m, &residency, PARTS);
	}
	if (needs(p, m) > left->bytes && p->stage_bytes && !p->output_room)
		p->output_streamed = packed_may_stay(m->packed, IMAGE_OUTPUT);
	return needs(p, m) <= left->bytes ? 0 : refuse(p, m, o, left, e);
}

/* ---- estimating the memory that a session needs ---- */

uint64_t session_model_bytes(const struct model *m)
{
	uint64_t bytes = m->output ? m->output->bytes : 0;

	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			if (m->layer[l][i])
				bytes += m->layer[l][i]->bytes;
	return bytes;
}

int session_need(const struct model *m, const struct session_opts *o,
	uint64_t *bytes, struct err *e)
{
	struct session_plan p;
	int ret = session_plan(&p, m, o, e);

	if (ret)
		return ret;
	*bytes = m->layers_packed < m->n_layer
		? session_model_bytes(m) + other_bytes(&p)
		: needs(&p, m);
	return 0;
}
