#include "host/session/session_plan.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/workers.h"
#include "flash/image.h"
#include "host/memory/experts.h"
#include "host/memory/kv_pool.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/swap_plan.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/model/shapes.h"
#include "host/session/batch.h"
#include "host/session/session.h"
#include "host/session/session_budget.h"
#include "ipc/wire.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE      IMAGE_PAGE
#define BLOCK_MAX (256ull << 20)
/* minimum number of rows of the graphs that opts.smaller_graphs adds, except
 * the one-row graph */
#define LEAST_ROWS 8

static uint64_t kv_bytes_per_token(
	const struct session_plan *p, const struct model *m)
{
	return 2ull * m->n_layer * p->kv_stride;
}

/* Bytes that one token's keys and values take in the device's window: those of
 * the model or those of the shape whose costs are simulated (opts.as),
 * whichever are more. If the model has only the last layers of a larger model
 * (layers_before), only the same share of the shape's layers counts. */
static uint64_t kv_room_per_token(const struct session_plan *p,
	const struct model *m, const struct session_opts *o)
{
	uint64_t own = kv_bytes_per_token(p, m), layers, shape;

	if (!o->as)
		return own;
	layers = o->as->n_layer -
		(uint64_t)m->layers_before * o->as->n_layer /
			(m->layers_before + m->n_layer);
	shape = 2 * layers *
		align_up((uint64_t)o->as->n_kv_head * o->as->head_dim *
				wire_kv_elt(o->precision),
			COHERENCE_LINE);
	return shape > own ? shape : own;
}

/*
 * Choose the context length: the requested length, which is refused if the
 * cache's buffer cannot hold so many tokens. If no length was requested: the
 * smaller of the model's context length and opts.context_need (unless that is
 * 0), but at most the number of tokens that fit the cache's buffer and half of
 * the device's window.
 */
static int choose_context(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	uint64_t most, fits;

	p->kv_stride = (uint32_t)align_up((uint64_t)m->n_kv_head * m->head_dim *
			wire_kv_elt(o->precision),
		COHERENCE_LINE);
	most = BUFFER_MAX / kv_bytes_per_token(p, m);
	if (o->context > most)
		return err_set(e, EFBIG,
			"a context of %u tokens needs %.0f MiB of key-value "
			"cache, but a shared buffer holds %zu MiB; try "
			"--ctx %llu%s",
			o->context,
			(double)kv_bytes_per_token(p, m) * o->context /
				(1 << 20),
			BUFFER_MAX >> 20, (unsigned long long)most,
			wire_kv_f16(o->precision)
				? ""
				: "or --precision f16-kv16, which halves the "
				  "cache");
	p->context = o->context;
	if (p->context)
		return 0;
	fits = o->va_window / 2 / kv_room_per_token(p, m, o);
	fits = fits < most ? fits : most;
	/* with several sequences, slots are allocated in whole runs */
	if (o->sequences > 1)
		fits = fits / KV_RUN * KV_RUN;
	p->context = fits < m->n_ctx ? (uint32_t)fits : m->n_ctx;
	if (o->context_need && o->context_need < p->context)
		p->context = o->context_need;
	if (!p->context)
		return err_set(e, EFBIG,
			"not even one token's keys and values fit into half "
			"of the window; try a larger --va-window");
	return 0;
}

/* Add a graph size. Do nothing if an earlier size is at least as large. */
static void add_graph(struct session_plan *p, uint32_t rows)
{
	if (!p->n_graphs || p->graph_rows[p->n_graphs - 1] < rows)
		p->graph_rows[p->n_graphs++] = rows;
}

static void choose_graphs(struct session_plan *p, bool smaller, bool larger,
	uint32_t few, uint32_t many)
{
	for (unsigned halved = MAX_GRAPHS - 2; halved; halved--)
		if (smaller && few >> halved >= LEAST_ROWS)
			add_graph(p, few >> halved);
	add_graph(p, few);
	p->decode_graph = p->n_graphs - 1;
	for (uint32_t rows = 2 * few;
		larger && rows < many && p->n_graphs < MAX_GRAPHS - 1;
		rows *= 2)
		add_graph(p, rows);
	add_graph(p, many);
	p->max_rows = many;
}

/* Compute the offsets and sizes of the buffers. The context and the graph sizes
 * must have been chosen. */
static void lay_out(struct session_plan *p, const struct model *m,
	const struct session_opts *o)
{
	const struct residency residency =
		residency_of(m->n_layer, p->resident, p->runs);
	size_t hidden = (size_t)p->max_rows * m->n_embd * sizeof(float);
	uint32_t few = p->graph_rows[0];

	p->kv_bytes = kv_bytes_per_token(p, m) * p->slots;
	p->kv_room = kv_room_per_token(p, m, o) * p->slots;
	p->parts_off = align_up(
		batch_bytes(p->max_rows, p->span_room), COHERENCE_LINE);
	p->hidden_off = p->parts_off;
	if (o->graph_switch) {
		p->part_bytes = align_up(
			batch_bytes(few, p->span_room), COHERENCE_LINE);
		p->hidden_off += (p->max_rows + few - 1) / few * p->part_bytes;
	}
	p->tap_off = p->hidden_off + align_up(hidden, COHERENCE_LINE);
	p->io_bytes = p->tap_off;
	if (o->tap_layers)
		p->io_bytes += align_up(hidden, COHERENCE_LINE);
	p->likely_off = p->io_bytes;
	p->io_bytes += align_up((size_t)p->max_rows * o->predict_top_k *
			sizeof(struct wire_likely),
		COHERENCE_LINE);
	p->scores_off = p->io_bytes;
	p->io_bytes +=
		align_up((size_t)p->max_rows * m->n_expert * sizeof(float),
			COHERENCE_LINE);
	p->picks_off = p->io_bytes;
	p->pick_bytes = align_up(
		(size_t)p->max_rows * m->n_used * sizeof(struct wire_pick),
		COHERENCE_LINE);
	p->io_bytes += PICK_AREAS * p->pick_bytes;
	p->io_room = p->io_bytes;
	if (o->as && o->as->n_embd > m->n_embd)
		p->io_room += (o->tap_layers ? 2ull : 1ull) * p->max_rows *
			(o->as->n_embd - m->n_embd) * sizeof(float);
	p->stage_bytes = 0;
	if (p->resident < m->n_layer)
		p->stage_bytes =
			session_budget_slot(m, &residency, p->stage_parts);
}

/* The type of the output matrix in the device's window: that of the model that
 * runs or, with `priced`, of the shape whose costs are simulated (opts.as). */
static enum dtype output_type(const struct session_plan *p,
	const struct model *m, const struct session_opts *o, bool priced)
{
	bool retyped = priced && o->as_type.type != DTYPE_F32;

	if (!retyped && m->packed && m->packed->output.rows)
		return m->packed->output.type;
	return layout_type(p->layout,
		retyped ? o->as_type.type : m->output->type,
		priced ? o->as->n_embd : m->n_embd, SIZE_MAX);
}

static int choose_output(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	if (!o->predict_top_k)
		return 0;
	if (p->output_streamed)
		return err_set(e, EINVAL,
			"the output matrix is streamed, but this --draft "
			"reads predictions of the device, which need the "
			"output matrix in memory; try a larger "
			"--dram-budget or another --draft");
	/* Reserve room for the final norm and the output matrix: those of the
	 * model that runs or those of the shape whose costs are simulated
	 * (opts.as), whichever take more bytes. */
	for (int priced = 0; priced <= (o->as != NULL); priced++) {
		uint32_t n_embd = priced ? o->as->n_embd : m->n_embd;
		uint64_t bytes =
			align_up(n_embd * sizeof(float), COHERENCE_LINE);

		bytes += layout_bytes(output_type(p, m, o, priced),
			priced ? o->as->n_vocab : m->n_vocab, n_embd);
		if (bytes > p->output_room)
			p->output_room = bytes;
	}
	if (p->output_room <= BUFFER_MAX)
		return 0;
	return err_set(e, EFBIG,
		"this --draft reads predictions of the device, which need "
		"the output matrix of %.0f MiB in a shared buffer, but a "
		"buffer holds %zu MiB; try another --draft",
		(double)p->output_room / (1 << 20), BUFFER_MAX >> 20);
}

/* Choose the number of cache slots and the maximum number of spans (ranges of
 * adjacent slots) of a pass. A single sequence is contiguous, so one span is
 * enough. In diffusion models each row may need its own span, because a row
 * attends to the cache up to the end of its block. */
static int choose_slots(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	uint64_t most = BUFFER_MAX / kv_bytes_per_token(p, m);
	uint64_t fits = o->va_window / 2 / kv_room_per_token(p, m, o);
	uint64_t slots = o->slots;

	p->span_room = m->causal ? 1 : WIRE_MAX_ROWS;
	p->slots = p->context;
	if (o->sequences == 1)
		return 0;
	if (!slots && o->tail) {
		/* Each further sequence needs slots for opts.tail tokens. These
		 * tokens may begin and end in the middle of a run (KV_RUN
		 * slots), so reserve two more runs for each such sequence. */
		slots = p->context +
			(o->sequences - 1) * ((uint64_t)o->tail + 2 * KV_RUN);
		fits = (fits < most ? fits : most) / KV_RUN * KV_RUN;
		slots = slots < fits ? slots : fits;
	}
	if (!o->slots && slots < p->context)
		slots = p->context;
	slots = align_up(slots, KV_RUN);
	if (slots > most)
		return err_set(e, EFBIG,
			"%llu tokens of %u sequences need %.0f MiB of "
			"key-value cache, but a shared buffer holds %zu MiB "
			"(%llu tokens); try fewer sequences or a smaller "
			"--ctx",
			(unsigned long long)slots, o->sequences,
			(double)(slots * kv_bytes_per_token(p, m)) / (1 << 20),
			BUFFER_MAX >> 20, (unsigned long long)most);
	p->span_room = WIRE_MAX_SPANS;
	p->slots = (uint32_t)slots;
	return 0;
}

/* Check whether graph switching is possible. With graph switching, each block
 * has a single graph at a time: first the prefill graph, later a graph with
 * `few` rows. */
static int check_switch(const struct session_plan *p, const struct model *m,
	const struct session_opts *o, uint32_t few, struct err *e)
{
	if (!m->causal && !m->block_length)
		return err_set(e, EINVAL,
			"--graph-switch is not possible: tokens of this "
			"model also attend to later tokens, so a graph with "
			"fewer rows cannot compute the prompt in parts; leave "
			"--graph-switch out");
	if (p->resident < m->n_layer)
		return err_set(e, EINVAL,
			"--graph-switch is not possible: %u layers are "
			"streamed, but a graph is loaded together with "
			"weights that must stay in memory; leave out "
			"--graph-switch or --dram-budget",
			m->n_layer - p->resident);
	if (o->placement == PLACEMENT_SWAP)
		return err_set(e, EINVAL,
			"--graph-switch needs weights that stay at their "
			"addresses, and --placement swap moves them; leave one "
			"of the options out");
	if (o->smaller_graphs || o->beside)
		return err_set(e, EINVAL,
			"--graph-switch keeps only one graph for each block, "
			"but %s; leave --graph-switch out",
			o->beside ? "a second model on the device needs its "
				    "own graphs"
				  : "smaller graphs were requested as well");
	if (o->one_graph)
		return err_set(e, EINVAL,
			"--graph-switch replaces one graph by another, but "
			"with --one-graph there is only one; leave one of the "
			"options out");
	if (few < o->prefill_chunk)
		return 0;
	return err_set(e, EINVAL,
		"--graph-switch is not possible: the decode graph (%u rows) "
		"is not smaller than the prefill graph (%u rows); try a "
		"larger --prefill-chunk",
		few, o->prefill_chunk);
}

/* Refuse the options that do not work with experts. */
static int check_experts(
	const struct model *m, const struct session_opts *o, struct err *e)
{
	if (o->as && (m->n_expert || o->as->n_expert))
		return err_set(e, ENOTSUP,
			"--as %s is not possible: neither this model nor the "
			"model of --as may have experts; leave --as out, or "
			"make a model of that shape with tandem synth --like",
			o->as->name);
	if (!m->n_expert)
		return 0;
	if (o->graph_switch)
		return err_set(e, EINVAL,
			"--graph-switch is not possible: a graph is loaded "
			"together with its weights, but the experts in "
			"memory change in every pass; leave --graph-switch "
			"out");
	if (o->placement == PLACEMENT_SWAP)
		return err_set(e, EINVAL,
			"--placement swap is not possible: the experts of "
			"this model are read into memory when they are "
			"used; leave --placement out, and give "
			"--dram-budget to keep fewer experts in memory");
	return 0;
}

int session_plan(struct session_plan *p, const struct model *m,
	const struct session_opts *o, struct err *e)
{
	uint32_t few = o->decode_rows, many = o->prefill_chunk;
	enum layout is = LAYOUT_TILES;
	int ret;

	*p = (struct session_plan){ 0 };
	if (!few || few > WIRE_MAX_ROWS || !many || many > WIRE_MAX_ROWS)
		return err_set(e, EINVAL,
			"the decode graph has %u rows and the prefill graph "
			"%u rows; a graph can have 1 to %d rows",
			few, many, WIRE_MAX_ROWS);
	if (!o->sequences || o->sequences > SESSION_SEQUENCES)
		return err_set(e, EINVAL,
			"%u sequences at a time were requested; 1 to %d are "
			"possible",
			o->sequences, SESSION_SEQUENCES);
	p->threads = o->threads ? o->threads : workers_online();
	if (o->exit_layers >= m->n_layer)
		return err_set(e, EINVAL,
			"an early exit after layer %u is not possible in a "
			"model of %u layers",
			o->exit_layers, m->n_layer);
	if (o->tap_layers >= m->n_layer || (o->tap_layers && o->exit_layers))
		return err_set(e, EINVAL,
			"hidden states cannot be kept after layer %u of a "
			"model of %u layers%s",
			o->tap_layers, m->n_layer,
			o->exit_layers ? " together with an early exit" : "");
	ret = check_experts(m, o, e);
	if (ret)
		return ret;
	p->runs = o->resident_runs ? o->resident_runs : o->weight_buffers;
	if (m->packed)
		is = m->packed->layout;
	p->layout = o->layout == LAYOUT_DEFAULT ? is : o->layout;
	if (m->packed && p->layout != is)
		return err_set(e, EINVAL,
			"--layout %s does not match the flash image: its "
			"layout is %s and cannot be changed; leave --layout "
			"out, or convert the model file with --layout %s",
			layout_names[p->layout], layout_names[is],
			layout_names[p->layout]);
	if ((ret = session_budget_choose(p, m, o, e)) ||
		(ret = choose_output(p, m, o, e)) ||
		(ret = choose_context(p, m, o, e)) ||
		(ret = choose_slots(p, m, o, e)))
		return ret;
	if (kv_room_per_token(p, m, o) * p->slots > WIRE_WINDOW_MAX)
		return err_set(e, EFBIG,
			"%u tokens of %s need %.0f MiB of key-value cache, "
			"but an address window has less than 4 GiB; try a "
			"smaller --ctx",
			p->slots, o->as->name,
			(double)(kv_room_per_token(p, m, o) * p->slots) /
				(1 << 20));
	if (o->graph_switch && few < o->graph_rows)
		few = o->graph_rows;
	if (o->graph_switch && (ret = check_switch(p, m, o, few, e)))
		return ret;
	if (few > p->context)
		few = p->context;
	if (few > many) {
		many = few;
		few = o->prefill_chunk;
	}
	if (o->one_graph)
		few = many;
	p->least_blocks = o->graph_switch ? o->graph_blocks : o->weight_buffers;
	if (o->smaller_graphs && !o->one_graph && m->causal)
		add_graph(p, 1);
	choose_graphs(p, o->smaller_graphs && !o->one_graph, o->larger_graphs,
		few, many);
	lay_out(p, m, o);
	return 0;
}

int session_plan_pricing(struct pricing *pricing, const struct session_plan *p,
	const struct model *m, const struct session_opts *o, size_t strip_max,
	const struct block *blocks, uint32_t n, struct err *e)
{
	const struct residency residency =
		residency_of(m->n_layer, p->resident, p->runs);
	int ret = pricing_init(
		pricing, o->soc, o->as, m, o->precision, blocks, n, e);

	if (ret || !o->as)
		return ret;
	pricing_keep(pricing, &residency, o->dram_bytes ? 0 : o->dram_share);
	pricing_retype(pricing, o->as_type, p->layout, strip_max);
	pricing->output_tiles = output_type(p, m, o, true);
	return 0;
}

/* Maximum size of a block: BLOCK_MAX or, if that is less, a third of the
 * device's remaining window. Then one block can run while another is mapped,
 * and even a fragmented window has a gap for a block. */
static uint64_t block_limit(
	const struct session_plan *p, const struct session_opts *o)
{
	uint64_t taken = p->kv_room + p->io_room + 4 * PAGE, left;

	if (p->output_room)
		taken += p->output_room + 2 * PAGE;
	if (p->stage_bytes)
		taken += p->stage_slots * (p->stage_bytes + 2 * PAGE);
	left = taken < o->va_window ? o->va_window - taken : 0;
	return left / 3 < BLOCK_MAX ? left / 3 : BLOCK_MAX;
}

int session_plan_blocks(const struct session_plan *p, const struct model *m,
	const struct session_opts *o, size_t strip_max, struct block **blocks,
	uint32_t *n, struct err *e)
{
	const struct weights_plan plan = {
		.layout = p->layout,
		.strip_max = strip_max,
		.want = p->least_blocks,
		.limit = block_limit(p, o),
		.residency = residency_of(m->n_layer, p->resident, p->runs),
		.cut = o->tap_layers ? o->tap_layers : o->exit_layers,
		.parts = p->stage_parts,
	};

	return weights_cut(m, &plan, blocks, n, e);
}

/* The layers of unit i, if a block's layers are cut into n units (parts that
 * are mapped separately). */
static struct share cut_share(struct share s, uint32_t i, uint32_t n)
{
	uint64_t layers = s.end - s.first;

	return (struct share){ s.first + (uint32_t)(layers * i / n),
		s.first + (uint32_t)(layers * (i + 1) / n) };
}

/* Number of units of at most `limit` bytes each into which a block is cut; with
 * by_layer, each layer is one unit. */
static uint32_t units_of(
	const struct pricing *p, uint32_t block, bool by_layer, uint64_t limit)
{
	struct share s = pricing_share(p, block);
	uint32_t n = 1, layers = s.end - s.first;
	uint64_t largest = UINT64_MAX;

	if (!p->as || !layers)
		return 1;
	if (by_layer)
		return layers;
	for (; largest > limit && n <= layers; n++) {
		largest = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint64_t bytes =
				pricing_bytes(p, block, cut_share(s, i, n));

			largest = bytes > largest ? bytes : largest;
		}
	}
	return n - 1;
}

/* Append a unit to `out`, or only count the units if `out` is NULL. A unit of
 * more than BUFFER_MAX bytes is cut into several units; only the last of them
 * keeps the layers of `unit`, the others have no layers. Returns the number of
 * units. */
static uint32_t put_units(struct unit *out, const struct unit *unit)
{
	uint32_t n = (uint32_t)((unit->room + BUFFER_MAX - 1) / BUFFER_MAX);

	for (uint32_t i = 0; out && i < n; i++) {
		out[i] = *unit;
		if (n == 1)
			break;
		out[i].room = i ? BUFFER_MAX
				: unit->room - (n - 1) * (uint64_t)BUFFER_MAX;
		out[i].bytes = out[i].room;
		if (i + 1 < n) {
			out[i].layers.end = unit->layers.first;
			out[i].last = false;
		}
	}
	return n;
}

static uint32_t cut_units(const struct session_plan *p,
	const struct session_opts *o, const struct pricing *pricing,
	uint32_t n_blocks, struct unit *out)
{
	uint32_t at = 0;

	/* The weights of a model with experts are not cut into units: they stay
	 * mapped. */
	if (pricing->model->n_expert)
		return 0;
	for (uint32_t b = 0; b < n_blocks && !pricing->block[b].streamed; b++) {
		const struct block *block = &pricing->block[b];
		struct share s = pricing_share(pricing, b);
		uint32_t n =
			units_of(pricing, b, p->by_layer, block_limit(p, o));

		for (uint32_t i = 0; i < n; i++) {
			struct unit unit = { .block = b,
				.layers = cut_share(s, i, n),
				.last = i + 1 == n };

			unit.bytes = pricing_bytes(pricing, b, unit.layers);
			unit.room = unit.bytes;
			if (unit.last && unit.room < block->bytes)
				unit.room = block->bytes;
			at += put_units(out ? out + at : NULL, &unit);
		}
	}
	return at;
}

int session_plan_units(const struct session_plan *p,
	const struct session_opts *o, const struct pricing *pricing,
	uint32_t n_blocks, struct unit **units, uint32_t *n, struct err *e)
{
	const uint32_t count = cut_units(p, o, pricing, n_blocks, NULL);

	*n = 0;
	*units = calloc(count + 1, sizeof(**units));
	if (!*units)
		return err_set(e, ENOMEM,
			"no memory for the list of %u units of weights", count);
	*n = cut_units(p, o, pricing, n_blocks, *units);
	return 0;
}

/* ---- the smallest window ------------------------------------------------- */

/* Add n mappings of `bytes` bytes each, with a guard page for each mapping. */
static uint64_t take(struct session_room *r, uint32_t n, uint64_t bytes)
{
	uint64_t span = align_up(bytes, PAGE);

	r->slots += n;
	r->total += n * (span + PAGE);
	return n * span;
}

static int room_in(const struct model *m, const struct session_opts *o,
	size_t strip_max, struct session_room *r)
{
	struct session_plan p;
	struct pricing pricing = { 0 };
	struct block *block;
	struct unit *unit = NULL;
	uint64_t largest = 0;
	uint32_t n, units = 0;
	int ret = session_plan(&p, m, o, NULL);

	if (ret)
		return ret;
	if (o->placement == PLACEMENT_SWAP) {
		p.least_blocks = p.resident;
		p.by_layer = true;
	}
	ret = session_plan_blocks(&p, m, o, strip_max, &block, &n, NULL);
	if (ret)
		return ret;
	ret = session_plan_pricing(
		&pricing, &p, m, o, strip_max, block, n, NULL);
	if (!ret)
		ret = session_plan_units(
			&p, o, &pricing, n, &unit, &units, NULL);
	*r = (struct session_room){ .total = PAGE };
	for (uint64_t left = p.kv_room, bytes; left; left -= bytes) {
		bytes = left < BUFFER_MAX ? left : BUFFER_MAX;
		r->kv += take(r, 1, bytes);
	}
	r->io = take(r, 1, p.io_room);
	if (p.output_room)
		r->output = take(r, 1, p.output_room);
	if (p.stage_bytes)
		r->staging = take(r, p.stage_slots, p.stage_bytes);
	if (m->n_expert) {
		uint64_t bytes = p.expert_slots *
			experts_slot_bytes(m, p.layout, strip_max);

		for (uint64_t part; bytes; bytes -= part) {
			part = bytes < BUFFER_MAX ? bytes : BUFFER_MAX;
			r->weights += take(r, 1, part);
		}
		for (uint32_t b = 0; b < n; b++)
			if (!block[b].experts)
				bytes +=
					align_up(block[b].bytes, WEIGHTS_ALIGN);
		r->weights += take(r, 1, bytes);
	}
	for (uint32_t i = 0; i < units; i++) {
		largest = unit[i].room > largest ? unit[i].room : largest;
		if (o->placement == PLACEMENT_FIXED)
			r->weights += take(r, 1, unit[i].room);
	}
	if (largest && o->placement == PLACEMENT_SWAP)
		r->weights = take(r, SWAP_SLOTS, largest);
	else if (largest && o->placement != PLACEMENT_FIXED)
		r->weights = take(r, 1, largest);
	free(unit);
	pricing_release(&pricing);
	weights_release(block, n);
	return ret;
}

/* Whether the device window has room for all that a session maps if its weights
 * are placed by `policy`. */
static bool fits(const struct model *m, const struct session_opts *opts,
	size_t strip_max, enum placement_policy policy)
{
	struct session_opts o = *opts;
	struct session_room r;

	o.placement = policy;
	return !room_in(m, &o, strip_max, &r) && r.total <= o.va_window &&
		r.slots <= o.va_slots;
}

enum placement_policy session_plan_placement(
	const struct model *m, const struct session_opts *o, size_t strip_max)
{
	bool swap = o->soc && !m->n_expert && !o->graph_switch &&
		!o->va_extended && !o->beside &&
		!fits(m, o, strip_max, PLACEMENT_FIXED) &&
		fits(m, o, strip_max, PLACEMENT_SWAP);

	return swap ? PLACEMENT_SWAP : PLACEMENT_BELADY;
}

bool session_plan_window(const struct model *m, const struct session_opts *opts,
	size_t strip_max, const struct session_beside *beside,
	struct session_room *r)
{
	struct session_opts o = *opts, other;
	struct session_room b = { .total = PAGE };

	if (beside) {
		other = *beside->opts;
		/* All weights of the other session stay mapped. room_in counts
		 * all weights only with PLACEMENT_FIXED. */
		other.placement = PLACEMENT_FIXED;
	}
	/* In a larger device window a longer cache and larger blocks are
	 * chosen, so the required size grows with the window. Try growing
	 * window sizes; the smallest possible window is the first one that is
	 * at least as large as the size required in it. */
	for (;; o.va_window = r->total) {
		if (beside) {
			other.va_window = o.va_window;
			if (room_in(beside->model, &other, strip_max, &b))
				return false;
		}
		if (room_in(m, &o, strip_max, r))
			return false;
		if (beside) {
			r->beside = b.total - PAGE + beside->more;
			r->total += r->beside;
			/* With a larger device window the session may choose a
			 * longer cache. So reserve at least a quarter of the
			 * window for the cache, plus 64 pages. */
			if (r->kv < o.va_window / 4)
				r->total += o.va_window / 4 - r->kv + 64 * PAGE;
		}
		r->slots += b.slots;
		if (r->total <= o.va_window)
			return true;
		if (r->total > WIRE_WINDOW_MAX)
			return false;
	}
}
