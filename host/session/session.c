#include "host/session/session_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/memory/experts.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/model/shapes.h"
#include "host/npu/npu.h"
#include "host/session/logits.h"
#include "host/session/switching.h"
#include "shm/buffer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

uint32_t session_context(const struct session *s)
{
	return s->plan.context;
}

struct npu *session_npu(const struct session *s)
{
	return s->npu;
}

uint32_t session_max_rows(const struct session *s)
{
	return s->plan.max_rows;
}

const struct model *session_model(const struct session *s)
{
	return s->model;
}

static const float *read_state(struct session *s, size_t off, uint32_t place)
{
	size_t width = s->model->n_embd * sizeof(float);
	const float *p;

	off += place * width;
	p = buffer_begin(s->io.buffer, off, width, BUFFER_READ);
	buffer_end(s->io.buffer, off, width, BUFFER_READ);
	return p;
}

const float *session_hidden(struct session *s, uint32_t row)
{
	return s->place[row] == DROPPED
		? NULL
		: read_state(s, s->plan.hidden_off, s->place[row]);
}

const float *session_tapped(struct session *s, uint32_t row)
{
	assert(s->opts.tap_layers && row < s->hidden_rows);
	return read_state(s, s->plan.tap_off, row);
}

static uint64_t streaming_ns(const struct session *s)
{
	struct staging_stats st = { 0 };

	if (s->staging)
		staging_stats(s->staging, &st);
	return st.stream.check_ns + st.stream.wait_ns;
}

/*
 * Weights are streamed while logits are computed: logits_compute calls a
 * function (logits_set_beside) that handles layers that have arrived;
 * logits_compute also waits for the parts of a streamed output matrix. The time
 * of that function and the waiting time count as streaming, so both times are
 * subtracted from the time of the logits.
 */
static int compute_of(struct session *s, const float *const *hidden,
	float *const *out, uint32_t n, struct err *e)
{
	size_t bytes = s->model->n_vocab * sizeof(**out);
	uint64_t from = clock_ns() - streaming_ns(s), ps = s->time->cpu_ps;
	struct price p = { 0 };
	int ret;

	trace_begin(s->trace, TRACE_LOGITS, n, 0);
	ret = s->opts.idle ? 0 : logits_compute(s->logits, hidden, out, n, e);
	trace_end(s->trace, TRACE_LOGITS);
	for (uint32_t i = 0; s->opts.idle && i < n; i++)
		memset(out[i], 0, bytes);
	s->stats.logits_ns += clock_ns() - streaming_ns(s) - from;
	if (!ret && s->opts.soc)
		pricing_logits(&s->pricing, n, &p);
	if (!ret)
		session_add_work_of(s, TRACE_PHONE_LOGITS, &p);
	s->stats.logits_ps += s->time->cpu_ps - ps;
	return ret;
}

void session_logits_used(struct session *s, const float *logits)
{
	if (s->opts.idle)
		return;
	XXH64_update(
		s->logits_hash, logits, s->model->n_vocab * sizeof(*logits));
	s->stats.logits_rows++;
}

static void all_used(struct session *s, float *const *logits, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		session_logits_used(s, logits[i]);
}

int session_logits_of(struct session *s, const float *const *hidden,
	float *const *out, uint32_t n, struct err *e)
{
	int ret = compute_of(s, hidden, out, n, e);

	if (!ret)
		all_used(s, out, n);
	return ret;
}

int session_logits_ahead(struct session *s, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *e)
{
	const float *hidden[LOGITS_ROWS];
	int ret = 0;

	for (uint32_t i = 0, k; i < n && !ret; i += k) {
		for (k = 0; k < LOGITS_ROWS && i + k < n; k++) {
			uint32_t at = row[i + k];

			if (at >= s->hidden_rows)
				return err_set(e, EINVAL,
					"logits of row %u were requested, but "
					"the last pass had %u rows",
					at, s->hidden_rows);
			hidden[k] = session_hidden(s, at);
			if (!hidden[k])
				return err_set(e, EINVAL,
					"logits were requested for row %u, "
					"which was dropped in the middle of "
					"the pass",
					at);
			ret = logits_check(hidden[k], s->model->n_embd, at, e);
			if (ret)
				return ret;
		}
		ret = compute_of(s, hidden, logits + i, k, e);
	}
	return ret;
}

int session_logits_rows(struct session *s, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *e)
{
	int ret = session_logits_ahead(s, row, n, logits, e);

	if (!ret)
		all_used(s, logits, n);
	return ret;
}

int session_logits(struct session *s, uint32_t first, uint32_t n, float *logits,
	struct err *e)
{
	uint32_t row[LOGITS_ROWS];
	float *out[LOGITS_ROWS];
	int ret = 0;

	for (uint32_t i = 0, some; i < n && !ret; i += some) {
		some = n - i < LOGITS_ROWS ? n - i : LOGITS_ROWS;
		for (uint32_t k = 0; k < some; k++) {
			row[k] = first + i + k;
			out[k] = logits + (size_t)(i + k) * s->model->n_vocab;
		}
		ret = session_logits_rows(s, row, some, out, e);
	}
	return ret;
}

/* ---- costs and times ----------------------------------------------------- */

void session_add_work_of(
	struct session *s, enum trace_name what, const struct price *p)
{
	phone_cpu(s->time, what, p);
	if (s->staging)
		stream_poll(staging_stream(s->staging));
}

static uint64_t priced_vocab(const struct session *s)
{
	return s->opts.as ? s->opts.as->n_vocab : s->model->n_vocab;
}

void session_add_draw(struct session *s, bool greedy)
{
	struct price p = { 0 };

	if (s->opts.soc)
		price_draw(s->opts.soc, 1, priced_vocab(s), greedy, &p);
	session_add_work_of(s, TRACE_PHONE_DRAW, &p);
}

void session_add_tops(struct session *s, uint32_t rows, uint32_t k)
{
	struct price p = { 0 };

	if (s->opts.soc)
		price_top(s->opts.soc, rows, priced_vocab(s), k, &p);
	session_add_work_of(s, TRACE_PHONE_DRAW, &p);
}

void session_add_sum(struct session *s)
{
	struct price p = { 0 };

	if (s->opts.soc)
		price_sweep(
			s->opts.soc, PRICE_SWEEP_ADD, 1, priced_vocab(s), &p);
	session_add_work_of(s, TRACE_PHONE_DRAW, &p);
}

void session_add_steps(struct session *s, uint64_t steps)
{
	struct price p = { 0 };

	if (s->opts.soc)
		price_walk(s->opts.soc, steps, &p);
	session_add_work_of(s, TRACE_PHONE_WORK, &p);
}

void session_add_search(struct session *s, const struct search_work *work)
{
	struct price p = { 0 };

	if (s->opts.soc)
		price_search(s->opts.soc, work, priced_vocab(s), &p);
	session_add_work_of(s, TRACE_PHONE_DRAFT, &p);
}

uint32_t session_tap_layers(const struct session *s)
{
	return s->opts.tap_layers;
}

void session_add_states(struct session *s, uint32_t n)
{
	uint64_t bytes = n * sizeof(float) * session_priced_width(s);
	struct price p = { 0 };

	if (s->opts.soc && n)
		price_cpu(s->opts.soc, 2 * bytes, 0, &p);
	session_add_work_of(s, TRACE_PHONE_WORK, &p);
}

uint32_t session_priced_width(const struct session *s)
{
	return s->opts.as ? s->opts.as->n_embd : s->model->n_embd;
}

void session_attend_apart(struct session *s, bool apart)
{
	s->opts.attend_apart = apart;
}

void session_price_by_cpu(struct session *s, bool but_prompts)
{
	s->pricing.by_cpu = true;
	s->prompts_by_npu = but_prompts;
}

uint32_t session_graph_rows(const struct session *s, uint32_t rows)
{
	uint32_t kind = 0;

	while (kind + 1 < s->plan.n_graphs && s->plan.graph_rows[kind] < rows)
		kind++;
	return s->plan.graph_rows[kind];
}

uint64_t session_expect_pass(
	const struct session *s, uint32_t rows, uint32_t longest)
{
	uint64_t sum = session_expect_experts(s, rows);

	for (uint32_t b = 0; b < s->n_blocks; b++) {
		const struct priced_run run = { b, rows,
			session_graph_rows(s, rows), longest, NULL, 0 };
		struct price p;

		pricing_run(&s->pricing, &run, &p);
		sum += p.total_ps;
	}
	return sum;
}

uint64_t session_device_ns(const struct session *s)
{
	struct experts_stats experts = { 0 };
	struct npu_stats npu;

	npu_stats(s->npu, &npu);
	if (s->mix.experts)
		experts_stats(s->mix.experts, &experts);
	return npu.busy_ns + experts.wait_ns;
}

uint64_t session_read_time(struct session *s)
{
	return s->staging ? staging_read_time(s->staging) : 0;
}

uint64_t session_passes(const struct session *s)
{
	return s->stats.passes;
}

uint64_t session_read_bytes(const struct session *s)
{
	const struct residency r =
		residency_of(s->model->n_layer, s->plan.resident, s->plan.runs);
	uint64_t sum = 0, bytes;

	for (uint32_t l = 0; s->staging && l < s->model->n_layer; l++) {
		if (!residency_streams(&r, l))
			continue;
		if (!s->opts.as)
			sum += image_find(
				s->model->packed->image, IMAGE_LAYER, l)
				       ->stored;
		/* With opts.as (the shape of another model), one real layer can
		 * stand for several layers of that model. Each of these layers
		 * has a read of its own. */
		for (uint32_t i = 0;
			s->opts.as && (bytes = pricing_read(&s->pricing, l, i));
			i++)
			sum += bytes;
	}
	return sum;
}

struct trace *session_trace(const struct session *s)
{
	return s->trace;
}

uint64_t session_phone_ps(const struct session *s)
{
	return s->opts.soc ? s->time->cpu_ps : 0;
}

uint64_t session_ahead(struct session *s)
{
	return s->staging ? staging_ahead(s->staging) : 0;
}

int session_read_ahead(struct session *s, struct err *e)
{
	return s->staging ? staging_fill(s->staging, e) : 0;
}

/* ---- counters ----------------------------------------------------------- */

const char *session_flash_how(const struct session *s)
{
	const char *how = s->mix.experts ? experts_how(s->mix.experts) : "";

	return s->staging ? stream_how(staging_stream(s->staging))
		: *how    ? how
			  : NULL;
}

static uint64_t weights_not_finite(const struct session *s)
{
	uint64_t n = logits_weights_not_finite(s->logits);

	for (uint32_t b = 0; b < s->n_blocks; b++)
		n += s->block[b].not_finite;
	if (s->mix.experts)
		n += experts_not_finite(s->mix.experts);
	return n;
}

void session_stats(const struct session *s, struct session_stats *out)
{
	const struct residency r =
		residency_of(s->model->n_layer, s->plan.resident, s->plan.runs);
	const struct wire_welcome *w = npu_welcome(s->npu);
	struct placement_stats place;
	struct npu_stats npu;

	npu_stats(s->npu, &npu);
	*out = s->stats;
	out->placement = s->opts.placement;
	if (s->placement) {
		placement_stats(s->placement, &place);
		out->maps = place.maps;
		out->unmaps = place.unmaps;
		for (uint32_t i = 0; i < s->n_units; i++)
			if (placement_is_mapped(s->placement, i) &&
				!placement_is_extended(s->placement, i))
				out->resident_bytes += s->unit[i].bytes;
	} else {
		session_swap_stats(s, out);
	}
	if (s->switching)
		switching_stats(s, &npu, &out->graphs);
	out->price = s->time->price;
	out->price.total_ps = s->time->cpu_ps;
	out->copied_runs = sequences_copied(s->sequences);
	out->resident_layers = s->plan.resident;
	out->resident_runs = r.runs;
	out->layers_before = residency_before(&r, r.resident, 1);
	if (s->staging) {
		out->stage_slots = s->plan.stage_slots;
		out->stage_parts = s->plan.stage_parts;
		out->stage_bytes = s->plan.stage_bytes;
		out->output_streamed = s->plan.output_streamed;
		staging_stats(s->staging, &out->staging);
	}
	if (s->mix.experts) {
		out->expert_slots = s->plan.expert_slots;
		experts_stats(s->mix.experts, &out->experts);
	}
	out->logits_computed = logits_rows(s->logits);
	out->logits_hash = XXH64_digest(s->logits_hash);
	out->rows_not_finite = logits_rows_not_finite(s->logits);
	out->weights_not_finite = weights_not_finite(s);
	/* Also count these mappings: the cache, the activations, the staging
	 * slots (for streamed layers), the output matrix, and the buffers of a
	 * model with experts. */
	out->maps += 2 + s->n_kv_more;
	for (unsigned i = 0; s->staging && i < s->plan.stage_slots; i++)
		out->maps += !s->stage[i].extended;
	out->maps += s->output.buffer && !s->output.extended;
	out->maps += s->mix.experts && !s->mix.dense.extended;
	for (unsigned i = 0; i < s->mix.n_buffers; i++)
		out->maps += !s->mix.buffer[i].extended;
	out->extended_room = w->va_extended;
#define TAKE(type, name) out->name = npu.name;
	NPU_STATS(TAKE)
	WIRE_COUNTERS(TAKE)
#undef TAKE
	out->blocks = s->n_blocks;
	/* Report the largest number of layers of a block: that of the last
	 * block, which may have more layers than the other blocks, because the
	 * number of layers need not be a multiple of the number of blocks. */
	out->layers_per_block = s->block[s->n_blocks - 1].n_layers;
	out->threads = w->threads;
	memcpy(out->kern, w->kern, sizeof(out->kern));
	out->kern[sizeof(out->kern) - 1] = '\0';
}

void session_hash_anew(struct session *s)
{
	XXH64_reset(s->logits_hash, 0);
}

int session_check_finite(const struct session *s, struct err *e)
{
	uint64_t weights = weights_not_finite(s);
	uint64_t rows = logits_rows_not_finite(s->logits);

	if (weights)
		return err_set(e, EDOM,
			"%" PRIu64 " weights of the model file are infinite or "
			"not a number, so its output is meaningless; download "
			"or make the file again",
			weights);
	if (rows)
		return err_set(e, EDOM,
			"%" PRIu64 " of %" PRIu64 " rows of logits hold values "
			"that are infinite, not a number or beyond 2^56, so the "
			"model's output is meaningless; try --precision f32",
			rows, logits_rows(s->logits));
	return 0;
}

#define SINCE_KEPT(name)
#define SINCE_LESS(name) now->name -= before->name;
#define SINCE_ROWS(name) row_counts_since(&now->name, &before->name);

void session_stats_since(
	struct session_stats *now, const struct session_stats *before)
{
	_Static_assert(sizeof(now->price) % sizeof(uint64_t) == 0,
		"every price is a count");
	const uint64_t *then = (const void *)&before->price;
	uint64_t *price = (void *)&now->price;

#define SINCE(since, report, name) SINCE_##since(name)
#define SINCE_GRAPHS(type, name)   SINCE_LESS(graphs.name)
#define SINCE_STAGING(type, name)  SINCE_LESS(staging.name)
#define SINCE_STREAM(type, name)        \
	SINCE_LESS(staging.stream.name) \
	SINCE_LESS(experts.stream.name)
#define SINCE_EXPERTS(type, name) SINCE_LESS(experts.name)
	SESSION_STATS(SINCE)
	SWITCH_STATS(SINCE_GRAPHS)
	STAGING_STATS(SINCE_STAGING)
	STREAM_STATS(SINCE_STREAM)
	EXPERTS_STATS(SINCE_EXPERTS)
	for (size_t i = 0; i < sizeof(now->price) / sizeof(*price); i++)
		price[i] -= then[i];
}
