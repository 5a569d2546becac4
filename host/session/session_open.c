/*
 * Opening and closing a session: the plan (session_plan.c), the device, the
 * shared buffers, and the weights in these buffers. session_attach.c then sets
 * up the device.
 */
#include "host/session/session_impl.h"

#include "base/err.h"
#include "base/fault_plan.h"
#include "base/memory_left.h"
#include "base/workers.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/swap.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/model/shapes.h"
#include "host/npu/npu.h"
#include "host/session/batch.h"
#include "host/session/logits.h"
#include "host/session/sequence.h"
#include "host/session/session_budget.h"
#include "host/session/switching.h"
#include "host/trace/trace.h"
#include "ipc/window_view.h"
#include "ipc/wire.h"
#include "shm/buffer.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time for which the host spins for a completion before it sleeps, in
 * microseconds: SPIN_SPARE_US if there are more CPUs than threads, otherwise
 * SPIN_SHARED_US. Spinning saves time only if a CPU is idle; otherwise spinning
 * takes CPU time from the device process. */
#define SPIN_SPARE_US  5000
#define SPIN_SHARED_US 50

/* Largest KV cache, in bytes, whose memory is allocated when the session
 * opens. */
#define KV_AT_ONCE ((uint64_t)256 << 20)

const struct session_opts session_defaults = SESSION_DEFAULTS;

static int open_plan(struct session *s, struct err *e)
{
	struct memory_left left;
	int ret = session_plan(&s->plan, s->model, &s->opts, e);

	if (!ret) {
		memory_left(&left, "/proc", "/sys");
		ret = session_budget_fit(
			&s->plan, s->model, &s->opts, &left, e);
	}
	s->opts.layout = s->stats.layout = s->plan.layout;
	s->opts.threads = s->plan.threads;
	s->stats.kv_bytes = s->plan.kv_bytes;
	return ret;
}

_Static_assert(SESSION_RESTARTS_MAX <= RESTARTS_MAX,
	"the handle can count all restarts");

/* Extract the faults that apply to flash (if `flash` is true) or to the device
 * (if `flash` is false) from a fault plan. */
static int share_of_plan(
	const char *plan, bool flash, char text[FAULT_TEXT_MAX], struct err *e)
{
	struct fault_plan whole, share;
	int ret = fault_plan_parse(&whole, plan, e);

	if (ret)
		return ret;
	fault_plan_share(&whole, flash, &share);
	fault_plan_print(&share, text);
	return 0;
}

static int open_npu(struct session *s, struct err *e)
{
	char fault[FAULT_TEXT_MAX];
	const struct session_opts *o = &s->opts;
	bool spare = workers_online() > o->threads;
	const struct npu_opts npu = {
		.ops = o->npu,
		.socket = o->device,
		.launch = { .program = o->program,
			.quiet = o->quiet,
			.coherence_report = o->coherence_report,
			.coherence_suppress = o->coherence_suppress,
			.fault = o->fault ? fault : NULL,
			.va_extended = o->va_extended,
			.va_defer = o->va_defer,
			.va_map_us = o->va_map_us },
		.stall_ms = o->stall_ms,
		.va_hard = o->va_hard,
		.restarts = o->restarts,
		.cancel = o->cancel,
		.brackets = o->coherence == COHERENCE_CHECK ? &s->own_brackets : NULL,
		.trace = s->trace,
		.hello = {
			.doorbell = o->doorbell,
			.coherence = o->coherence,
			.contract = o->contract,
			.threads = o->threads,
			.va_slots = o->va_slots,
			.va_window = o->va_window,
			.evict_seed = o->evict_seed,
			.features = (s->trace ? WIRE_FEATURE_TRACE : 0) |
				(o->coherence_ctrl ? WIRE_FEATURE_CACHED_RINGS
						   : 0),
			.spin_us = o->spin_us >= 0 ? (uint32_t)o->spin_us
				: spare            ? SPIN_SPARE_US
						   : SPIN_SHARED_US,
		},
	};

	int ret;

	s->time = &s->own_time;
	s->time->trace = o->soc ? s->trace : NULL;
	s->brackets = npu.brackets;
	if (o->beside) {
		s->brackets = o->beside->brackets;
		s->npu = o->beside->npu;
		s->time = o->beside->time;
		s->first_graph = o->beside->first_graph +
			(o->beside->n_blocks + 1) * MAX_GRAPHS;
		return 0;
	}
	s->owns_npu = true;
	ret = share_of_plan(o->fault, false, fault, e);
	return ret ? ret : npu_open(&s->npu, &npu, e);
}

static uint64_t priced_read(const void *arg, uint32_t layer, uint32_t i)
{
	const struct session *s = arg;

	if (layer == s->model->n_layer)
		return i ? 0
			 : layout_bytes(s->pricing.output, s->opts.as->n_vocab,
				   s->opts.as->n_embd);
	return pricing_read(&s->pricing, layer, i);
}

int session_flash_fault(struct session *s, struct err *e)
{
	const char *plan = s->opts.flash_fault;
	char text[FAULT_TEXT_MAX];
	int ret = 0;

	if (!plan) {
		ret = share_of_plan(s->opts.fault, true, text, e);
		plan = ret || !*text ? NULL : text;
	}
	return plan ? flash_fault_parse(&s->fault, plan, e) : ret;
}

/* Create the staging slots, into which streamed layers are read. The slots,
 * like the cache, stay mapped. */
static int open_staging(struct session *s, struct err *e)
{
	const struct model *m = s->model;
	struct staging_opts o = {
		.residency = residency_of(
			m->n_layer, s->plan.resident, s->plan.runs),
		.slots = s->plan.stage_slots,
		.parts = s->plan.stage_parts,
		.tensor = m->packed ? m->packed->layer : NULL,
		.output_strip = s->plan.output_streamed
			? layout_bytes(m->packed->output.type, TILE, m->n_embd)
			: 0,
		.head_bytes = weights_head_bytes(m),
		.stream = s->opts.stream,
		.soc = s->opts.soc,
		.time = s->time,
		.priced = s->opts.as ? priced_read : NULL,
		.arg = s,
		.trace = s->trace,
	};
	int ret;

	if (s->plan.resident == m->n_layer)
		return 0;
	ret = session_flash_fault(s, e);
	if (ret)
		return ret;
	o.stream.fault = s->fault;
	ret = staging_open(&s->staging, m->packed->image, &o, e);
	for (unsigned i = 0; i < o.slots && !ret; i++) {
		struct buffer *b = staging_buffer(s->staging, i);

		memcpy(buffer_begin(b, 0, o.head_bytes, BUFFER_WRITE),
			m->rope_freq, m->n_rot / 2 * sizeof(float));
		buffer_end(b, 0, o.head_bytes, BUFFER_WRITE);
		s->stage[i].buffer = b;
	}
	return ret;
}

/* Provide part i of the streamed output matrix, for logits_compute. */
static int need_output(
	void *arg, uint32_t i, struct logits_part *part, struct err *e)
{
	struct session *s = arg;
	size_t strip = layout_bytes(
		s->model->packed->output.type, TILE, s->model->n_embd);
	struct staging_output got;
	int ret = staging_need_output(s->staging, i, s->time->cpu_ps, &got, e);

	if (ret)
		return ret;
	s->output_slot = got.slot;
	part->weights = got.data;
	part->n = (uint32_t)(got.bytes * TILE / strip);
	return 0;
}

static int done_output(void *arg, struct err *e)
{
	struct session *s = arg;

	return staging_refill(s->staging, s->output_slot, s->time->cpu_ps, e);
}

/* Share the output matrix with the device. */
static int open_output(struct session *s, struct err *e)
{
	struct pinned *p = &s->output;
	size_t bytes = s->plan.output_room;
	int ret;

	s->likely = calloc((size_t)s->plan.max_rows * s->opts.predict_top_k,
		sizeof(*s->likely));
	if (!s->likely)
		return err_set(
			e, ENOMEM, "no memory for the device's predictions");
	ret = buffer_create(&p->buffer, "output", bytes, BUFFER_DMA, e);
	if (ret)
		return ret;
	/* With opts.as (the model shape whose cost is simulated), the buffer
	 * also has room for the output matrix of that shape. If the shape is
	 * larger than the model, most of the buffer only reserves addresses and
	 * needs no memory. */
	if (!s->opts.as)
		buffer_take_memory(p->buffer, s->workers);
	logits_share(s->logits, buffer_begin(p->buffer, 0, bytes, BUFFER_WRITE),
		&s->output_graph.norm, &s->output_graph.matrix);
	buffer_end(p->buffer, 0, bytes, BUFFER_WRITE);
	s->output_graph.top_k = s->opts.predict_top_k;
	s->stats.weight_bytes += bytes;
	return 0;
}

/* Whether to allocate the memory of the KV cache at once, in huge pages.
 * Otherwise the device takes a page fault for each page that it writes first,
 * which slows prompts. A large cache, or a cache for several sequences, such as
 * a server's, may never be filled, and with opts.as most of the cache only
 * reserves addresses. */
static bool takes_cache(const struct session *s)
{
	return !s->opts.as && s->opts.sequences == 1 &&
		s->plan.kv_room <= KV_AT_ONCE;
}

static int open_buffers(struct session *s, struct err *e)
{
	struct kv_memory kv = { .layers = s->model->n_layer,
		.slots = s->plan.slots,
		.stride = s->plan.kv_stride };
	uint64_t left = s->plan.kv_room;
	uint64_t bytes = left < BUFFER_MAX ? left : BUFFER_MAX;
	int ret = buffer_create(&s->kv.buffer, "kv", bytes,
		takes_cache(s) ? BUFFER_HUGE : 0, e);
	uint32_t text;

	if (!ret && takes_cache(s))
		buffer_take_memory(s->kv.buffer, s->workers);
	kv.buffer = s->kv.buffer;
	for (left -= bytes; left && !ret; left -= bytes) {
		char name[BUFFER_NAME_MAX];

		snprintf(name, sizeof(name), "kv%u", s->n_kv_more + 1);
		bytes = left < BUFFER_MAX ? left : BUFFER_MAX;
		ret = buffer_create(
			&s->kv_more[s->n_kv_more++].buffer, name, bytes, 0, e);
	}
	if (!ret)
		ret = sequences_open(&s->sequences, &kv, s->opts.sequences, e);
	if (!ret)
		ret = sequence_open(s->sequences, &text, e);
	if (!ret)
		ret = buffer_create(&s->io.buffer, "io", s->plan.io_room, 0, e);
	if (!ret && s->plan.output_room)
		ret = open_output(s, e);
	return ret ? ret : open_staging(s, e);
}

static void release_units(struct session *s)
{
	for (uint32_t i = 0; i < s->n_units; i++)
		buffer_close(s->unit[i].buffer);
	free(s->unit);
	free(s->first_unit);
	s->unit = NULL;
	s->first_unit = NULL;
	s->n_units = 0;
}

int session_cut_blocks(struct session *s, struct err *e)
{
	uint32_t stay = 0, stream, n;
	int ret;

	release_units(s);
	pricing_release(&s->pricing);
	weights_release(s->block, s->n_blocks);
	s->block = NULL;
	s->n_blocks = 0;
	free(s->order);
	s->order = NULL;
	ret = session_plan_blocks(&s->plan, s->model, &s->opts, s->strip_max,
		&s->block, &s->n_blocks, e);
	if (ret)
		return ret;
	/* Resident blocks have the lowest numbers; streamed blocks have the
	 * numbers after them. `order` lists all blocks in the order in which a
	 * pass runs them, which is the order of their layers. */
	n = s->n_blocks;
	while (stay < n && !s->block[stay].streamed)
		stay++;
	s->first_streamed = stream = stay;
	s->order = calloc(n, sizeof(*s->order));
	if (!s->order)
		return err_set(e, ENOMEM, "no memory for %u blocks", n);
	stay = 0;
	for (uint32_t i = 0; i < n; i++) {
		bool streams = stay == s->first_streamed ||
			(stream < n &&
				s->block[stream].first_layer <
					s->block[stay].first_layer);

		s->order[i] = streams ? stream++ : stay++;
	}
	ret = session_plan_pricing(&s->pricing, &s->plan, s->model, &s->opts,
		s->strip_max, s->block, s->n_blocks, e);
	if (ret)
		return ret;

	/* Cut the blocks into units (parts of blocks), which are mapped
	 * separately. A block's buffer has the size of the block's last
	 * unit. */
	ret = session_plan_units(
		&s->plan, &s->opts, &s->pricing, n, &s->unit, &s->n_units, e);
	s->first_unit = calloc(n + 1, sizeof(*s->first_unit));
	if (ret || !s->first_unit)
		return err_set(e, ENOMEM, "no memory for %u blocks", n);
	for (uint32_t i = 0; i < s->n_units; i++) {
		const struct unit *u = &s->unit[i];

		s->first_unit[u->block + 1] = i + 1;
		if (u->last)
			s->block[u->block].room = (uint32_t)u->room;
	}
	return 0;
}

static int open_weights(struct session *s, struct err *e)
{
	bool swaps;
	int ret;

	s->strip_max = npu_welcome(s->npu)->tcm_share;
	if (s->opts.placement == PLACEMENT_AUTO)
		s->opts.placement = session_plan_placement(
			s->model, &s->opts, s->strip_max);
	swaps = s->opts.placement == PLACEMENT_SWAP;
	ret = session_cut_blocks(s, e);
	if (!ret && swaps)
		ret = session_plan_swap(s, e);
	/* Create a buffer for each unit except the last unit of each block,
	 * which uses the block's buffer. */
	for (uint32_t i = swaps ? s->swapping.planned : 0;
		i < s->n_units && !ret; i++) {
		struct unit *u = &s->unit[i];
		char name[BUFFER_NAME_MAX];

		if (u->last)
			continue;
		snprintf(name, sizeof(name), "weights%u.%u", u->block,
			i - s->first_unit[u->block]);
		ret = buffer_create(&u->buffer, name, u->room, BUFFER_DMA, e);
	}
	if (!ret && s->model->n_expert)
		ret = session_share_dense(s, e);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < s->n_blocks; i++)
		s->stats.weight_bytes += (uint64_t)s->block[i].bytes *
			(s->block[i].experts ? s->model->n_expert : 1);
	ret = weights_load(s->model, s->workers, s->block, s->n_blocks,
		&s->opts.progress, e);
	if (!ret && s->model->n_expert)
		ret = session_open_experts(s, e);
	return !ret && swaps ? session_open_swap(s, e) : ret;
}

static int open_rows(struct session *s, struct err *e)
{
	uint32_t n = s->plan.max_rows;

	s->batch = calloc(1, sizeof(*s->batch));
	s->row = calloc(n, sizeof(*s->row));
	s->above = calloc(n, sizeof(*s->above));
	s->at = calloc(n, sizeof(*s->at));
	s->upper = calloc(n, sizeof(*s->upper));
	s->place = calloc(n, sizeof(*s->place));
	s->keep = calloc(n, sizeof(*s->keep));
	s->some = calloc(n, sizeof(*s->some));
	if (!s->batch || !s->row || !s->above || !s->at || !s->upper ||
		!s->place || !s->keep || !s->some)
		return err_set(
			e, ENOMEM, "no memory for the %u rows of a pass", n);
	if (!s->opts.as && !s->opts.soc)
		return 0;
	s->cut = malloc(batch_cut_bytes(n, s->plan.span_room));
	if (!s->cut)
		return err_set(e, ENOMEM,
			"no memory for the list of positions to which rows "
			"attend");
	return 0;
}

/* Free everything. If the session has a trace of its own, also close the trace;
 * returns 0 or the error of closing the trace. */
static int session_free(struct session *s, struct err *e)
{
	struct trace *trace = s->opts.beside ? NULL : s->trace;

	if (s->owns_npu)
		npu_close(s->npu);
	else if (s->npu)
		/* remove the handler of completions, whose argument may be this
		 * session */
		npu_watch(s->npu, NULL, NULL);
	switching_close(s->switching);
	placement_close(s->placement);
	session_close_swap(s);
	session_close_experts(s);
	staging_close(s->staging);
	free(s->fault);
	release_units(s);
	pricing_release(&s->pricing);
	weights_release(s->block, s->n_blocks);
	buffer_close(s->kv.buffer);
	for (unsigned i = 0; i < s->n_kv_more; i++)
		buffer_close(s->kv_more[i].buffer);
	buffer_close(s->io.buffer);
	logits_close(s->logits);
	XXH64_freeState(s->logits_hash);
	buffer_close(s->output.buffer);
	free(s->likely);
	workers_close(s->workers);
	free(s->order);
	sequences_close(s->sequences);
	free(s->batch);
	free(s->row);
	free(s->above);
	free(s->at);
	free(s->upper);
	free(s->place);
	free(s->keep);
	free(s->some);
	free(s->cut);
	brackets_release(&s->own_brackets);
	free(s);
	return trace_close(trace, e);
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* Append to *e the size of a device window that would be large enough. */
static void advise_window(const struct session *s, struct err *e)
{
	static const char *const which[PLACEMENT_COUNT] = {
		[PLACEMENT_AUTO] = "one block of weights",
		[PLACEMENT_BELADY] = "one block of weights",
		[PLACEMENT_PAGING] = "one block of weights",
		[PLACEMENT_DROP_ALL] = "one block of weights",
		[PLACEMENT_SWAP] = "two blocks of weights",
		[PLACEMENT_FIXED] = "weights",
	};
	char staging[48] = "", others[48] = "", window[40] = "";
	char output[48] = "";
	char slots[32] = "";
	const struct session *first = s->opts.beside;
	struct session_opts opts = s->opts;
	struct session_beside beside;
	struct session_room r;
	struct npu_room now;
	struct err why = *e;

	npu_room(s->npu, &now);
	if (first)
		beside = (struct session_beside){ first->model, &first->opts,
			now.mapped - s->stats.bytes_mapped -
				first->stats.bytes_mapped };
	/* Fix the context before the size of the device's window is computed:
	 * for a small window a shorter context would be chosen, and a request
	 * that needs a longer context would end early. */
	if (!opts.context)
		opts.context = opts.context_need < s->model->n_ctx
			? opts.context_need
			: s->model->n_ctx;
	if (!session_plan_window(s->model, &opts,
		    npu_welcome(s->npu)->tcm_share, first ? &beside : NULL, &r))
		return;
	if (r.staging)
		snprintf(staging, sizeof(staging), "staging slots %.1f, ",
			mib(r.staging));
	if (r.output)
		snprintf(output, sizeof(output), "output matrix %.1f, ",
			mib(r.output));
	if (first)
		snprintf(others, sizeof(others), "other models %.1f, ",
			mib(r.beside));
	if (r.total > s->opts.va_window)
		snprintf(window, sizeof(window), " --va-window %lluK",
			(unsigned long long)(r.total + 1023) / 1024);
	if (r.slots > s->opts.va_slots)
		snprintf(slots, sizeof(slots), " --va-slots %u", r.slots);
	if (!*window && !*slots)
		return;
	err_set(e, ENOSPC,
		"%s. %s%s%s: key-value cache of %u tokens %.1f "
		"MiB, activations %.1f, %s%s%s%s %.1f, and guard pages",
		why.text, first ? "Try" : "The smallest sufficient window is",
		window, slots, opts.context, mib(r.kv), mib(r.io), output,
		staging, others,
		s->mix.experts ? "weights" : which[s->opts.placement],
		mib(r.weights));
}

void session_refuse_window(struct session *s, struct err *e)
{
	struct window_view view;

	if (s->refused)
		return;
	s->refused = true;
	/* With an extended region (addresses outside the window), the necessary
	 * size of the device's window depends on the buffers that are placed in
	 * this region, so no size can be advised. */
	if (e && !npu_welcome(s->npu)->va_extended)
		advise_window(s, e);
	if (!s->opts.window_refused)
		return;
	npu_window(s->npu, &view);
	s->opts.window_refused(&view);
}

int session_open(struct session **out, const struct model *m,
	const struct session_opts *opts, struct err *e)
{
	struct session *s = calloc(1, sizeof(*s));
	int ret = 0;

	if (!s || !(s->logits_hash = XXH64_createState())) {
		free(s);
		return err_set(e, ENOMEM, "no memory for a session");
	}
	XXH64_reset(s->logits_hash, 0);
	brackets_init(&s->own_brackets);
	s->model = m;
	s->opts = *opts;
	if (!opts->contract)
		s->opts.contract = opts->soc ? (uint32_t)opts->soc->cache_levels
					     : COHERENCE_ONE_LEVEL;
	s->counts = &s->stats.decode_rows;
	/* A session that shares the device of another session also shares that
	 * session's trace. */
	if (opts->beside)
		s->trace = opts->beside->trace;
	else if (opts->trace)
		ret = trace_open(&s->trace, opts->trace, opts->trace_limit, e);
	if (!ret && !opts->beside && opts->trace && opts->soc)
		trace_phone(s->trace, opts->clock);
	trace_begin(s->trace, TRACE_START, m->n_layer, 0);
	if (ret || (ret = open_plan(s, e)) || (ret = open_rows(s, e)) ||
		(ret = workers_open(&s->workers, s->opts.threads, e)) ||
		(ret = logits_open(&s->logits, m, s->opts.layout,
			 s->opts.precision, s->plan.output_streamed, s->workers,
			 e)) ||
		(ret = open_npu(s, e)) || (ret = open_buffers(s, e)) ||
		(ret = session_attach_part(s, session_attach_buffers, e)) ||
		(ret = open_weights(s, e)) ||
		(ret = s->opts.graph_switch ? switching_open(s, e) : 0) ||
		(ret = session_recover(s, session_attach_weights(s, e), e)) ||
		(ret = s->staging ? staging_start(s->staging, e) : 0)) {
		if (ret == -ENOSPC && s->npu)
			session_refuse_window(s, e);
		session_free(s, NULL);
		return ret;
	}
	if (s->swapping.swap)
		swap_start(s->swapping.swap);
	if (s->staging) {
		logits_set_beside(s->logits,
			&(struct logits_beside){ session_read_on, s });
		logits_set_source(s->logits,
			&(struct logits_source){ need_output, done_output, s });
	}
	trace_end(s->trace, TRACE_START);
	*out = s;
	return 0;
}

int session_close(struct session *s, struct err *e)
{
	char plan[FAULT_TEXT_MAX] = "", text[FAULT_TEXT_MAX + 128];
	struct npu_stats st;
	bool left = false;
	int ret = 0, closed;

	if (!s)
		return 0;
	npu_stats(s->npu, &st);
	if (st.violations)
		ret = err_set(e, EPROTO,
			"%llu violation%s of the cache-maintenance rules; the "
			"first: %s",
			(unsigned long long)st.violations,
			st.violations == 1 ? "" : "s",
			st.violation[0] ? st.violation : "not reported");
	/* Report planned flash faults that were never triggered. The device
	 * process reports planned device faults itself. */
	if (s->fault)
		left = flash_fault_unfired(s->fault, plan, sizeof(plan));
	else if (s->owns_npu && s->opts.fault)
		left = !share_of_plan(s->opts.fault, true, plan, NULL) && *plan;
	if (left) {
		atomic_fetch_add(&fault_plan_unfired, 1);
		snprintf(text, sizeof(text),
			"the fault '%s' was never triggered: the program "
			"made fewer reads from flash",
			plan);
		if (s->opts.notice.report)
			s->opts.notice.report(s->opts.notice.arg, text);
	}
	closed = session_free(s, ret ? NULL : e);
	return ret ? ret : closed;
}
