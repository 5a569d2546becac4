#include "host/session_impl.h"

#include "base/err.h"
#include "host/batch.h"
#include "host/logits.h"
#include "host/model/model.h"
#include "host/npu.h"
#include "host/placement.h"
#include "host/weights.h"
#include "ipc/wire.h"
#include "shm/buffer.h"

#include <errno.h>
#include <string.h>

#define BIND_REFS 5 /* of a request, beside what is to be invalidated */
#define IO_RANGES 2 /* the CPU writes the batch and the hidden states */

_Static_assert(BUFFER_RANGES + IO_RANGES + BIND_REFS <= WIRE_MAX_REFS,
	"a request must be able to name all that the CPU wrote");

/* ---- a pass -------------------------------------------------------------- */

uint32_t session_length(const struct session *s)
{
	return s->length;
}

uint32_t session_context(const struct session *s)
{
	return s->context;
}

uint32_t session_max_rows(const struct session *s)
{
	return s->max_rows;
}

const struct model *session_model(const struct session *s)
{
	return s->model;
}

/* The batch and the rows' embeddings, as the CPU writes them. */
static size_t write_inputs(struct session *s, const struct token_tree *t,
	struct wire_graph_run *run)
{
	size_t width = s->model->n_embd * sizeof(float);
	size_t bound = batch_bytes(t->n), bytes;
	uint8_t *p;

	p = buffer_begin(s->io.buffer, 0, bound, BUFFER_WRITE);
	bytes = batch_fill(p, t, s->model->causal, s->length, run);
	buffer_end(s->io.buffer, 0, bound, BUFFER_WRITE);

	p = buffer_begin(
		s->io.buffer, s->hidden_off, t->n * width, BUFFER_WRITE);
	for (uint32_t i = 0; i < t->n; i++)
		model_embed(s->model, (uint32_t)t->token[i],
			(float *)(void *)(p + i * width));
	buffer_end(s->io.buffer, s->hidden_off, t->n * width, BUFFER_WRITE);
	return bytes;
}

/* What the CPU wrote since the last request, for the device to invalidate. */
static unsigned sync_refs(struct pinned *p, struct wire_ref *refs)
{
	const struct buffer_range *range;
	unsigned n = buffer_written(p->buffer, &range);

	for (unsigned i = 0; i < n; i++)
		refs[i] = (struct wire_ref){
			.addr = p->addr + (uint32_t)range[i].off,
			.len = (uint32_t)range[i].len,
			.role = WIRE_REF_SYNC,
			.flags = WIRE_REF_INVALIDATE,
			.cpu_seq = range[i].seq,
		};
	buffer_written_clear(p->buffer);
	return n;
}

static unsigned bind(const struct session *s, const struct block *b,
	uint32_t weights, size_t batch, uint32_t rows, struct wire_ref *refs)
{
	uint32_t hidden = s->io.addr + (uint32_t)s->hidden_off;
	uint32_t width = s->model->n_embd * (uint32_t)sizeof(float);
	const struct wire_ref bound[BIND_REFS] = {
		{ .role = WIRE_REF_WEIGHTS, .addr = weights, .len = b->bytes },
		{ .role = WIRE_REF_KV,
			.addr = s->kv.addr,
			.len = (uint32_t)s->stats.kv_bytes },
		{ .role = WIRE_REF_HIDDEN_IN,
			.addr = hidden,
			.len = rows * width },
		{ .role = WIRE_REF_HIDDEN_OUT,
			.addr = hidden,
			.len = rows * width },
		{ .role = WIRE_REF_ROWS,
			.addr = s->io.addr,
			.len = (uint32_t)batch },
	};

	memcpy(refs, bound, sizeof(bound));
	return BIND_REFS;
}

/* All blocks' requests back to back; they complete behind one another. */
static int run_blocks(struct session *s, struct wire_graph_run *run,
	uint32_t kind, size_t batch, struct err *e)
{
	struct wire_ref refs[WIRE_MAX_REFS];
	uint32_t weights;
	unsigned n;
	int ret;

	for (uint32_t b = 0; b < s->n_blocks; b++) {
		ret = placement_need(s->placement, b, &weights, e);
		if (ret)
			return ret;
		n = b ? 0 : sync_refs(&s->kv, refs);
		n += b ? 0 : sync_refs(&s->io, refs + n);
		n += bind(s, &s->block[b], weights, batch, run->rows, refs + n);
		run->graph = graph_id(b, kind);
		ret = npu_send(s->npu, refs, n, run, sizeof(*run), e);
		if (ret)
			return ret;
	}
	return npu_drain(s->npu, e);
}

static void take_price(struct session *s)
{
	struct price p = { 0 };

	npu_take_price(s->npu, &p);
	price_add(&s->stats.price, &p);
	if (s->in_prompt)
		price_add(&s->stats.prompt_price, &p);
}

int session_forward(
	struct session *s, const struct token_tree *t, struct err *e)
{
	struct wire_graph_run run = { .op = WIRE_GRAPH_RUN };
	uint32_t kind = 0;
	size_t batch;
	int ret;

	if (s->opts.cancel && *s->opts.cancel)
		return err_set(e, ECANCELED, "interrupted");
	ret = batch_check(
		t, s->model->causal, s->max_rows, s->model->n_vocab, e);
	if (ret)
		return ret;
	if (t->n > s->context - s->length)
		return err_set(e, ENOSPC,
			"the context of %u tokens is full: %u are in it, %u "
			"more were to come; try a larger --ctx",
			s->context, s->length, t->n);
	while (s->graph_rows[kind] < t->n)
		kind++;
	batch = write_inputs(s, t, &run);
	s->hidden_rows = s->tree_rows = 0;
	ret = run_blocks(s, &run, kind, batch, e);
	take_price(s);
	if (ret)
		return ret;
	s->hidden_rows = s->tree_rows = t->n;
	for (uint32_t i = 0; i < t->n; i++)
		s->parent[i] = batch_parent(t, i);
	s->stats.passes++;
	s->stats.rows += t->n;
	s->stats.padded_rows += s->graph_rows[kind] - t->n;
	return 0;
}

const float *session_hidden(struct session *s, uint32_t row)
{
	size_t width = s->model->n_embd * sizeof(float);
	size_t off = s->hidden_off + row * width;
	const float *p = buffer_begin(s->io.buffer, off, width, BUFFER_READ);

	buffer_end(s->io.buffer, off, width, BUFFER_READ);
	return p;
}

int session_logits(
	struct session *s, uint32_t row, float *logits, struct err *e)
{
	return session_logits_range(s, row, 1, logits, e);
}

/* What the phone's CPU would take for them. */
static void price_logits(struct session *s, uint32_t rows)
{
	const struct model *m = s->model;
	struct price p;

	if (s->opts.soc &&
		!price_cpu_matmul(s->opts.soc, rows, m->n_vocab, m->n_embd,
			m->output->type, &p))
		price_add(&s->stats.price, &p);
}

int session_logits_range(struct session *s, uint32_t first, uint32_t n,
	float *logits, struct err *e)
{
	const float *hidden[LOGITS_ROWS];
	float *out[LOGITS_ROWS];
	uint32_t some;

	if (first >= s->hidden_rows || n > s->hidden_rows - first)
		return err_set(e, EINVAL,
			"logits of row %u, but the last forward had %u",
			first + n - 1, s->hidden_rows);
	for (uint32_t i = 0; i < n; i += some) {
		some = n - i < LOGITS_ROWS ? n - i : LOGITS_ROWS;
		for (uint32_t j = 0; j < some; j++) {
			hidden[j] = session_hidden(s, first + i + j);
			out[j] = logits + (size_t)(i + j) * s->model->n_vocab;
		}
		logits_compute(s->logits, hidden, out, some);
		price_logits(s, some);
	}
	return 0;
}

/* ---- the cache ----------------------------------------------------------- */

static int check_path(const struct session *s, const uint32_t *path, uint32_t n,
	struct err *e)
{
	int32_t above = -1;

	for (uint32_t k = 0; k < n; k++) {
		if (path[k] >= s->tree_rows || s->parent[path[k]] != above)
			return err_set(e, EINVAL,
				"accepted row %u is not the next on a path of "
				"the last forward's %u rows",
				path[k], s->tree_rows);
		above = (int32_t)path[k];
	}
	return 0;
}

/*
 * Move the path's rows of one layer's keys or values, at `base`. From the
 * first row that has to move on all have to, each downwards, so ascending
 * order is safe in place.
 */
static void compact(struct session *s, size_t base, const uint32_t *path,
	uint32_t first, uint32_t n)
{
	size_t stride = s->kv_stride;
	size_t to = base + (s->length + first) * stride;
	size_t from = base + (s->length + path[first]) * stride;
	size_t to_len = (n - first) * stride;
	size_t from_len = (path[n - 1] - path[first] + 1) * stride;
	const uint8_t *src;
	uint8_t *dst;

	src = buffer_begin(s->kv.buffer, from, from_len, BUFFER_READ);
	dst = buffer_begin(s->kv.buffer, to, to_len, BUFFER_WRITE);
	for (uint32_t k = first; k < n; k++)
		memmove(dst + (k - first) * stride,
			src + (path[k] - path[first]) * stride, stride);
	buffer_end(s->kv.buffer, to, to_len, BUFFER_WRITE);
	buffer_end(s->kv.buffer, from, from_len, BUFFER_READ);
}

int session_accept(
	struct session *s, const uint32_t *path, uint32_t n, struct err *e)
{
	uint32_t first = 0;
	int ret = check_path(s, path, n, e);

	if (ret)
		return ret;
	while (first < n && path[first] == first)
		first++;
	for (uint32_t half = 0; first < n && half < 2 * s->model->n_layer;
		half++)
		compact(s, (size_t)half * s->context * s->kv_stride, path,
			first, n);
	s->length += n;
	s->tree_rows = 0;
	return 0;
}

void session_truncate(struct session *s, uint32_t length)
{
	if (length < s->length)
		s->length = length;
	s->tree_rows = 0;
}

int session_prefill(struct session *s, const int32_t *token, size_t n,
	uint32_t *last_row, struct err *e)
{
	uint32_t chunk = s->opts.prefill_chunk;
	if (!n)
		return err_set(e, EINVAL, "nothing to prefill");
	for (size_t i = 0; i < n; i += chunk) {
		struct token_tree t = { .token = token + i };
		int ret;

		t.n = n - i < chunk ? (uint32_t)(n - i) : chunk;
		s->in_prompt = true;
		ret = session_forward(s, &t, e);
		s->in_prompt = false;
		if (!ret)
			ret = session_accept(s, s->identity, t.n, e);
		if (ret)
			return ret;
		*last_row = t.n - 1;
	}
	return 0;
}

/* ---- counters ----------------------------------------------------------- */

void session_stats(const struct session *s, struct session_stats *out)
{
	const struct wire_welcome *w = npu_welcome(s->npu);
	struct placement_stats place;
	struct npu_stats npu;

	npu_stats(s->npu, &npu);
	placement_stats(s->placement, &place);
	*out = s->stats;
	out->logits_rows = logits_rows(s->logits);
	out->logits_hash = logits_hash(s->logits);
	out->round_trips = npu.round_trips;
	out->sleeps = npu.sleeps;
	out->maps = place.maps + 2; /* the cache and the activations */
	out->unmaps = place.unmaps;
	out->dma_bytes = npu.total.dma_bytes;
	out->invalidated_lines = npu.total.invalidated_lines;
	out->cleaned_lines = npu.total.cleaned_lines;
	out->evicted_lines = npu.total.evicted_lines;
	out->violations = npu.violations;
	out->saturated = npu.saturated;
	out->device_ns = npu.total.busy_ns;
	out->blocks = s->n_blocks;
	/* The last block has what division left over. */
	out->layers_per_block = s->block[s->n_blocks - 1].n_layers;
	out->threads = w->threads;
	memcpy(out->kern, w->kern, sizeof(out->kern));
	out->kern[sizeof(out->kern) - 1] = '\0';
}
