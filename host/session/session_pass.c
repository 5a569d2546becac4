/* A pass: the device computes all rows, layer by layer. Some rows may be
 * dropped after the first exit_layers layers. */
#include "host/session/pass_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/memory/staging.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "host/session/batch.h"
#include "host/session/logits.h"
#include "host/session/sequence.h"
#include "host/session/switching.h"
#include "host/trace/trace.h"
#include "shm/buffer.h"
#include "tensor/tile.h"

#include <errno.h>
#include <string.h>

static void set_rows(struct pass *p, uint32_t n)
{
	p->kind = 0;
	while (p->s->plan.graph_rows[p->kind] < n)
		p->kind++;
	p->graph_rows = p->s->switching ? switching_rows(p->s, n)
					: p->s->plan.graph_rows[p->kind];
	p->padded += p->graph_rows - n;
	p->refs_sent = false;
}

/* ---- requests ---- */

/* Send the request to run block b with its graph `kind`, an index into
 * plan.graph_rows. */
static int send_run(struct pass *p, uint32_t b, uint32_t kind,
	const struct part *part, struct err *e)
{
	struct session *s = p->s;
	struct wire_ref refs[WIRE_MAX_REFS];
	struct wire_graph_run run = part->run;
	struct inflight f = {
		.run = { b, run.rows, s->plan.graph_rows[kind], part->longest,
			part->pieces ? s->cut : NULL, part->pieces },
		.slot = -1,
		.swap = -1,
		.asked_ps = s->time->cpu_ps
	};
	unsigned n = 0;
	int ret = session_find_weights(s, b, &f, e);

	if (ret)
		goto not_sent;
	if (!p->refs_sent) {
		n = session_sync_refs(s, &s->kv, refs);
		n += session_sync_refs(s, &s->io, refs + n);
		p->refs_sent = true;
	}
	n += pass_bind(s, &f, part, refs + n);
	run.graph = graph_id(s, b, kind);
	f.sent_ps = s->time->cpu_ps;
	f.ring_bytes = session_ring_bytes(s, n, sizeof(run));
	ret = npu_send(s->npu, refs, n, &run, sizeof(run), &f.seq, e);
	if (ret)
		goto not_sent;
	inflight_add(s, &f);
	return 0;
not_sent:
	/* release the staging slot and the swap slot (buffers of weights) that
	 * the request would have read */
	inflight_release_swap(s, &f, s->time->cpu_ps);
	if (f.slot >= 0)
		staging_refill(
			s->staging, (unsigned)f.slot, s->time->cpu_ps, NULL);
	return ret;
}

/* Run the block with its current graph. If the graph has fewer rows than the
 * pass, run the block several times, each time for a part of the rows. */
static int send_switched(
	struct pass *p, uint32_t b, const struct part *whole, struct err *e)
{
	struct session *s = p->s;
	const struct switching *sw = s->switching;
	int ret = switching_before(s, b, e);
	uint32_t kind = sw->kind[b];

	if (ret || whole->run.rows <= s->plan.graph_rows[kind])
		return ret ? ret : send_run(p, b, kind, whole, e);
	for (uint32_t i = 0; i < sw->n_parts && !ret; i++) {
		ret = send_run(p, b, kind, &sw->part[i], e);
		if (!ret)
			ret = inflight_retire(s, e);
	}
	return ret;
}

void session_read_on(void *arg)
{
	struct session *s = arg;

	stream_poll(staging_stream(s->staging));
}

/*
 * Run blocks [from, to). Requests are sent without waiting for earlier
 * requests, and complete in order. With streamed layers at most two requests
 * are outstanding, the running request and the next request, so that staging
 * slots become free soon. If a layer is streamed in parts, the runs of its
 * parts follow each other directly.
 */
static int run_blocks(struct pass *p, uint32_t from, uint32_t to, struct err *e)
{
	const struct part whole = { .run = p->run,
		.longest = p->longest,
		.pieces = p->pieces,
		.places = p->batch };
	struct session *s = p->s;
	int ret = 0;

	for (uint32_t i = from; i < to && !ret; i++) {
		uint32_t b = s->order[i];

		if (s->block[b].experts)
			ret = pass_run_experts(p, b, e);
		else
			ret = s->switching ? send_switched(p, b, &whole, e)
					   : send_run(p, b, p->kind, &whole, e);
		if (!ret && block_ends(&s->block[b]) && p->hooks &&
			p->hooks->meanwhile)
			ret = p->hooks->meanwhile(p->hooks->arg, e);
		if (!ret && s->generation != p->generation)
			ret = err_set(e, ERR_DEVICE_LOST,
				"the device was replaced in the middle of a "
				"pass");
		if (!ret && s->block[b].streamed)
			ret = npu_drain(s->npu, 1, session_read_on, s, e);
		if (!ret)
			ret = inflight_retire(s, e);
	}
	return ret ? ret : inflight_wait(s, e);
}

/* ---- dropping rows after exit_layers ------------------------------------- */

static int start_batch(
	struct session *s, const struct rows *rows, struct err *e)
{
	const struct batch_limits limits = { .causal = s->model->causal,
		.block_length = s->model->block_length,
		.rows = s->plan.max_rows,
		.n_vocab = s->model->n_vocab,
		.context = s->plan.context };

	return batch_init(s->batch, rows, &limits, s->sequences, e);
}

/* Write the batch of the n rows that are not dropped after the first
 * exit_layers layers. */
static int write_kept(struct pass *p, uint32_t n, struct err *e)
{
	struct session *s = p->s;
	struct buffer *io = s->io.buffer;
	const struct rows kept = { VISIBILITY_TREE, n, s->some };
	size_t width = s->model->n_embd * sizeof(float);
	size_t bytes = s->hidden_rows * width, off = s->plan.hidden_off;
	uint32_t at[WIRE_MAX_ROWS];
	int32_t above[WIRE_MAX_ROWS];
	uint8_t *hidden;
	int ret = start_batch(s, &kept, e);

	if (ret)
		return ret;
	batch_place(s->batch, at, above);
	for (uint32_t i = 0; i < n; i++)
		s->upper[s->keep[i]] = at[i];

	/* Move the states of the kept rows to the start of the buffer, without
	 * gaps. */
	buffer_begin(io, off, bytes, BUFFER_READ);
	hidden = buffer_begin(io, off, n * width, BUFFER_WRITE);
	for (uint32_t i = 0; i < n; i++)
		memmove(hidden + i * width, hidden + s->keep[i] * width, width);
	buffer_end(io, off, n * width, BUFFER_WRITE);
	buffer_end(io, off, bytes, BUFFER_READ);
	return pass_write_batch(p, at, e);
}

static int leave_rows(struct pass *p, const struct rows *all, struct err *e)
{
	struct session *s = p->s;
	uint32_t n = all->n;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		s->keep[i] = i;
		ret = logits_check(
			session_hidden(s, i), s->model->n_embd, i, e);
	}
	if (!ret)
		ret = p->hooks->choose(p->hooks->arg, s->keep, &n, e);
	if (ret)
		return ret;
	if (!n)
		return err_set(e, EINVAL,
			"all rows would be dropped in the middle of the pass; "
			"at least one must be kept");

	/* Copy the n rows whose numbers are in keep[] to some[], and renumber
	 * their parents. */
	for (uint32_t i = 0; i < all->n; i++)
		s->place[i] = DROPPED;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = s->keep[i];
		int32_t parent;

		if (row >= all->n || (i && row <= s->keep[i - 1]))
			return err_set(e, EINVAL,
				"the rows to keep must have ascending numbers "
				"below %u",
				all->n);
		parent = all->row[row].parent;
		if (parent >= 0 && s->place[parent] == DROPPED)
			return err_set(e, EINVAL,
				"row %u is kept, but its parent %d is not", row,
				parent);
		s->place[row] = i;
		s->some[i] = all->row[row];
		if (parent >= 0)
			s->some[i].parent = (int32_t)s->place[parent];
	}
	if (n == all->n)
		return 0;
	ret = write_kept(p, n, e);
	set_rows(p, n);
	return ret;
}

/* ---- a whole pass -------------------------------------------------------- */

/* Release the claimed slots of those rows of the previous pass that were not
 * accepted. */
static void session_settle(struct session *s)
{
	for (uint32_t i = 0; i < s->kept_rows; i++)
		sequence_settle(s->sequences, s->row[i].sequence);
	s->kept_rows = s->hidden_rows = 0;
}

static int check_forward(struct session *s, const struct rows *rows,
	const struct session_hooks *hooks, struct err *e)
{
	if (s->opts.cancel && __atomic_load_n(s->opts.cancel, __ATOMIC_RELAXED))
		return err_set(e, ECANCELED, "interrupted");
	if (!s->attached)
		return err_set(e, ERR_DEVICE_LOST,
			"the device was lost and has not been replaced");
	if (!rows->state != !s->model->layers_before)
		return err_set(e, EINVAL,
			"rows %s input hidden states were given, but this "
			"model continues after %u layers of another model",
			rows->state ? "with" : "without",
			s->model->layers_before);
	if (hooks && hooks->choose && rows->visibility != VISIBILITY_TREE)
		return err_set(e, EINVAL,
			"only rows of a tree may be dropped in the middle of a "
			"pass");
	return start_batch(s, rows, e);
}

/* Count the rows of a pass. If the pass has both prompt rows and other rows,
 * its padding is counted with the other rows. */
static void count_rows(struct session *s, uint32_t rows, uint32_t graph_rows)
{
	uint32_t read = 0;
	struct row_counts all = { .passes = 1,
		.rows = rows,
		.graph = graph_rows,
		.tile = align_up(graph_rows, TILE) };
	struct row_counts prompt;

	for (uint32_t i = 0; i < rows; i++)
		read += s->row[i].prompt;
	prompt = (struct row_counts){
		.rows = read, .graph = read, .tile = read
	};
	s->stats.passes++;
	s->stats.rows += rows;
	if (read == rows) {
		row_counts_add(&s->stats.prompt_rows, &all);
		return;
	}
	row_counts_since(&all, &prompt);
	row_counts_add(&s->stats.prompt_rows, &prompt);
	row_counts_add(s->counts, &all);
}

/* Record the end of a pass in the trace. For a pass that failed, `rows` is
 * 0. */
static void trace_pass_end(struct session *s, uint32_t rows, uint32_t padded)
{
	if (!s->trace)
		return;
	trace_emit(s->trace,
		&(const struct trace_event){ .type = TRACE_END,
			.name = TRACE_PASS,
			.at = clock_ns(),
			.first = 1,
			.n = 2,
			.arg = { rows, padded } });
	trace_count(s->trace, TRACE_ROWS, rows);
	trace_count(s->trace, TRACE_PADDED_ROWS, padded);
	trace_count(s->trace, TRACE_KV_SLOTS,
		s->plan.slots - sequences_free(s->sequences));
}

/* Check the rows, claim their cache slots, and write the data that the device
 * reads. */
static int begin_pass(struct pass *p, const struct rows *rows, struct err *e)
{
	struct session *s = p->s;
	int ret;

	/* Begin a flow (a link between events) in the trace, with the number
	 * that the pass will have if it succeeds. Requests that compute rows of
	 * the pass refer to this flow. */
	if (s->trace)
		trace_emit(s->trace,
			&(const struct trace_event){ .type = TRACE_BEGIN,
				.name = TRACE_PASS,
				.at = p->began_ns,
				.n = 1,
				.arg = { rows->n },
				.flow = trace_pass_flow(s->stats.passes + 1) });
	ret = check_forward(s, rows, p->hooks, e);
	if (ret)
		goto out;
	npu_watch(s->npu, session_request_done, s);
	/* wait for requests of an interrupted pass, and remove them from the
	 * list */
	if (s->n_inflight && (ret = inflight_wait(s, e)))
		goto out_settle;
	session_settle(s);
	ret = sequences_claim(
		s->sequences, s->batch->claim, s->batch->n_parts, e);
	if (ret)
		goto out_settle;
	memcpy(s->row, rows->row, rows->n * sizeof(*s->row));
	s->visibility = rows->visibility;
	s->kept_rows = rows->n;
	batch_place(s->batch, s->at, s->above);
	memcpy(s->upper, s->at, rows->n * sizeof(*s->upper));
	for (uint32_t i = 0; i < rows->n; i++)
		s->place[i] = i;
	ret = pass_write_batch(p, s->at, e);
	if (!ret && s->switching)
		ret = switching_cut(s, p->hooks && p->hooks->choose, e);
	if (!ret)
		ret = pass_write_hidden(s, rows, e);
	if (ret)
		goto out_settle;
	set_rows(p, rows->n);
	p->first_graph_rows = p->graph_rows;
	s->began_ps = s->time->cpu_ps;
	return 0;
out_settle:
	session_settle(s);
out:
	trace_pass_end(s, 0, 0);
	return ret;
}

/* Count the pass if it succeeded, or else release the slots that the pass
 * claimed. */
static void end_pass(struct pass *p, const struct rows *rows, int ret)
{
	struct session *s = p->s;

	s->stats.pass_ns += clock_ns() - p->began_ns;
	if (ret) {
		session_settle(s);
	} else {
		s->hidden_rows = rows->n;
		s->stats.padded_rows += p->padded;
		s->stats.upper_rows += p->run.rows;
		s->stats.mixed_passes += s->batch->n_parts > 1;
		count_rows(s, rows->n, p->first_graph_rows);
	}
	trace_pass_end(s, ret ? 0 : rows->n, ret ? 0 : p->padded);
}

/* After a pass failed with `ret`: returns 0 if the pass can be computed again
 * (on another device if the device was lost), or else -errno. */
static int recover_pass(const struct pass *p, int ret, struct err *e)
{
	struct session *s = p->s;

	/* During switching_measure, return the error instead of repeating the
	 * pass: the caller repeats the whole measurement. */
	if (s->switching && !s->switching->measured)
		return ret;
	/* Another session that shares the device may have noticed the loss
	 * first, in a hook of this pass; that session has then already
	 * recovered both sessions. */
	if (ret == -ERR_DEVICE_LOST && s->attached &&
		s->generation != p->generation)
		return 0;
	return session_recover(s, ret, e);
}

/* If the device is lost, the pass is computed again from its rows, which claim
 * cache slots again. */
int session_forward(struct session *s, const struct rows *rows,
	const struct session_hooks *hooks, struct err *e)
{
	bool drop = hooks && hooks->choose && s->opts.exit_layers;
	int ret = session_follow(s, e);
	uint32_t at = s->switching ? s->switching->at : 0;
	/* index in `order` of the first block after the first exit_layers
	 * layers */
	uint32_t upper = 0;

	while (drop &&
		s->block[s->order[upper]].first_layer < s->opts.exit_layers)
		upper++;
	for (;;) {
		struct pass p = { .s = s,
			.hooks = hooks,
			.run = { .op = WIRE_GRAPH_RUN,
				.flags = session_flags(s) },
			.generation = s->generation,
			.began_ns = clock_ns() };

		if (!ret)
			ret = begin_pass(&p, rows, e);
		if (!ret) {
			if (drop) {
				ret = run_blocks(&p, 0, upper, e);
				s->hidden_rows = rows->n;
				if (!ret)
					ret = leave_rows(&p, rows, e);
			}
			if (!ret)
				ret = run_blocks(&p, upper, s->n_blocks, e);
			end_pass(&p, rows, ret);
		}
		if (!ret) {
			npu_went_on(s->npu);
			return 0;
		}
		ret = recover_pass(&p, ret, e);
		if (ret)
			return ret;
		if (s->switching)
			s->switching->at = at;
	}
}

int session_continue(struct session *s, uint32_t sequence, const int32_t *token,
	uint32_t n, struct err *e)
{
	bool chain = s->model->causal || s->model->block_length;
	const struct rows rows = { .visibility = chain ? VISIBILITY_TREE
						       : VISIBILITY_WINDOW,
		.n = n,
		.row = s->some };
	uint32_t length = sequence_is_open(s->sequences, sequence)
		? session_length(s, sequence)
		: 0;

	/* If n is too large, leave the error to session_forward. */
	rows_tree(s->some, sequence, length, token, NULL,
		n < s->plan.max_rows ? n : s->plan.max_rows);
	return session_forward(s, &rows, NULL, e);
}
