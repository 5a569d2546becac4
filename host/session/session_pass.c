/*
 * A pass: rows through all layers on the device, block after block, while the
 * layers that are not in memory come from flash.
 */
#include "host/session/session_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/memory/placement.h"
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
#include "tensor/soc.h"
#include "tensor/tile.h"

#include <errno.h>
#include <string.h>

#define BIND_REFS 5 /* of a request, beside what is to be invalidated */
#define IO_RANGES 3 /* the CPU writes the batch, its parts, the states */

_Static_assert(BUFFER_RANGES + IO_RANGES + BIND_REFS <= WIRE_MAX_REFS,
	"a request must be able to name all that the CPU wrote");

/* A pass under way. */
struct pass {
	struct session *s;
	const struct session_hooks *hooks;
	struct wire_graph_run run;
	uint32_t kind; /* of graph */
	uint32_t graph_rows;
	uint32_t longest;    /* slots that the row which sees the most sees */
	uint32_t pieces;     /* as in struct part */
	size_t batch;        /* bytes of the rows' places and masks */
	bool told;           /* of what the CPU wrote */
	unsigned generation; /* of the device that it began on */
};

/* The batch, as the CPU writes it. */
static int write_batch(struct pass *b, const uint32_t *at, struct err *e)
{
	struct session *s = b->s;
	struct wire_graph_run *run = &b->run;
	size_t most = batch_bytes(s->batch->rows.n, s->plan.span_room), wrote;
	uint8_t *p = buffer_begin(s->io.buffer, 0, most, BUFFER_WRITE);
	int ret = batch_fill(
		p, s->batch, s->sequences, at, s->plan.span_room, run, e);

	if (ret)
		return ret;
	b->batch = batch_bytes(run->rows, run->n_spans);
	if (s->opts.as || s->pricing.by_cpu) {
		b->longest = batch_longest(p, run);
		b->pieces = batch_cut(p, run, s->cut);
	}
	wrote = batch_bytes(run->rows, run->n_spans ? run->n_spans : 1);
	buffer_end(s->io.buffer, 0, wrote, BUFFER_WRITE);
	return 0;
}

/* What a row's layers begin with. */
static int write_state(struct session *s, const struct rows *rows, uint32_t i,
	float *to, struct err *e)
{
	if (!rows->state)
		return model_embed(
			s->model, (uint32_t)rows->row[i].token, to, e);
	memcpy(to, rows->state[i], s->model->n_embd * sizeof(*to));
	return 0;
}

static int write_hidden(
	struct session *s, const struct rows *rows, struct err *e)
{
	size_t width = s->model->n_embd * sizeof(float);
	uint8_t *p = buffer_begin(s->io.buffer, s->plan.hidden_off,
		rows->n * width, BUFFER_WRITE);
	int ret = 0;

	for (uint32_t i = 0; i < rows->n && !ret; i++)
		ret = write_state(
			s, rows, i, (float *)(void *)(p + i * width), e);
	buffer_end(s->io.buffer, s->plan.hidden_off, rows->n * width,
		BUFFER_WRITE);
	return ret;
}

/* Under coherence level check: from here a report of the device leads back. */
static void tell_write(struct session *s, const struct pinned *p,
	const struct buffer_range *range)
{
	if (!s->trace || !s->tell)
		return;
	trace_tell(s->trace,
		&(const struct trace_event){ .type = TRACE_INSTANT,
			.name = TRACE_CPU_WRITE,
			.at = clock_ns(),
			.n = 3,
			.arg = { range->off, range->len, range->seq },
			.text = trace_text(s->trace, range->by),
			.flow = trace_write_flow(
				buffer_name(p->buffer), range->seq) });
}

/* What the CPU wrote since the last request, for the device to invalidate. */
static unsigned sync_refs(
	struct session *s, struct pinned *p, struct wire_ref *refs)
{
	const struct buffer_range *range;
	unsigned n = buffer_written(p->buffer, &range);

	for (unsigned i = 0; i < n; i++) {
		tell_write(s, p, &range[i]);
		refs[i] = (struct wire_ref){
			.addr = p->addr + (uint32_t)range[i].off,
			.len = (uint32_t)range[i].len,
			.role = WIRE_REF_SYNC,
			.flags = WIRE_REF_INVALIDATE,
			.by = s->tell ? tell_name(s->tell, range[i].by) : 0,
			.cpu_seq = range[i].seq,
		};
	}
	buffer_written_clear(p->buffer);
	return n;
}

int session_tell_kv(struct session *s, unsigned ranges, struct err *e)
{
	const struct wire_simple nop = { .op = WIRE_NOP };
	struct wire_ref refs[BUFFER_RANGES];
	const struct buffer_range *range;
	struct price as, upkeep;
	uint64_t bytes = 0;
	uint32_t seq;
	unsigned n;
	int ret;

	if (buffer_written(s->kv.buffer, &range) + ranges <= BUFFER_RANGES)
		return 0;
	n = sync_refs(s, &s->kv, refs);
	for (unsigned i = 0; i < n; i++)
		bytes += refs[i].len;
	if (s->opts.as && s->opts.soc) {
		price_request(s->opts.soc, &as);
		pricing_upkeep(&s->pricing, 0, bytes, &upkeep);
		price_add(&as, &upkeep);
		s->instead = &as;
	}
	session_watch(s);
	ret = npu_send(s->npu, refs, n, &nop, sizeof(nop), &seq, e);
	if (!ret)
		ret = npu_wait(s->npu, seq, e);
	s->instead = NULL;
	/* Another device has nothing of the cache that it could be told of. */
	return session_recover(s, ret, e);
}

/* Where the states behind so many layers lie: those that are tapped in a place
 * of their own, which the pass leaves as it is. */
static uint32_t states_at(
	const struct session *s, uint32_t layers, uint32_t first_row)
{
	bool tapped = s->opts.tap_layers && layers == s->opts.tap_layers;
	size_t off = tapped ? s->plan.tap_off : s->plan.hidden_off;

	return s->io.addr +
		(uint32_t)(off + first_row * s->model->n_embd * sizeof(float));
}

static unsigned bind(const struct session *s, const struct flight *f,
	const struct part *part, struct wire_ref *refs)
{
	const struct block *b = &s->block[f->run.block];
	uint32_t width = s->model->n_embd * (uint32_t)sizeof(float);
	uint32_t rows = part->run.rows;
	const struct wire_ref bound[BIND_REFS] = {
		{ .role = WIRE_REF_WEIGHTS,
			.flags = f->run.extended ? WIRE_REF_EXTENDED : 0,
			.addr = f->weights,
			.len = b->bytes },
		{ .role = WIRE_REF_KV,
			.addr = s->kv.addr,
			.len = (uint32_t)s->stats.kv_bytes },
		{ .role = WIRE_REF_HIDDEN_IN,
			.addr = states_at(s, b->first_layer, part->first),
			.len = rows * width },
		{ .role = WIRE_REF_HIDDEN_OUT,
			.addr = states_at(
				s, b->first_layer + b->n_layers, part->first),
			.len = rows * width },
		{ .role = WIRE_REF_ROWS,
			.addr = s->io.addr + (uint32_t)part->off,
			.len = (uint32_t)part->places },
	};

	memcpy(refs, bound, sizeof(bound));
	return BIND_REFS;
}

/* ---- a pass ---- */

static void set_rows(struct pass *p, uint32_t n)
{
	p->kind = 0;
	while (p->s->plan.graph_rows[p->kind] < n)
		p->kind++;
	p->graph_rows = p->s->switching ? switching_rows(p->s, n)
					: p->s->plan.graph_rows[p->kind];
	p->s->stats.padded_rows += p->graph_rows - n;
	p->told = false;
}

/* A block that is not mapped is brought when all before it are through, and the
 * device waits as long as that takes. */
static int bring_block(
	struct session *s, uint32_t b, struct flight *f, struct err *e)
{
	const struct phone_time *t = s->time;
	uint64_t began_ns, began_ps;
	int ret = flights_answered(s, e);

	if (ret)
		return ret;
	began_ns = clock_ns();
	began_ps = phone_later(t->cpu_ps, t->npu_ps);
	ret = placement_need(s->placement, b, &f->weights, e);
	if (ret == -ENOSPC)
		session_tell_window(s);
	s->stats.stall_ns += clock_ns() - began_ns;
	s->stats.stall_ps += phone_later(t->cpu_ps, t->npu_ps) - began_ps;
	f->asked_ps = t->cpu_ps;
	return ret;
}

/* A phone that reads a layer when its turn has come is through with those
 * before it. */
static int await_turn(struct session *s, struct err *e)
{
	return s->opts.soc && s->opts.soc->flash_ahead < 1 ? flights_wait(s, e)
							   : 0;
}

static int find_staged(
	struct session *s, uint32_t b, struct flight *f, struct err *e)
{
	unsigned where;
	int ret = await_turn(s, e);

	trace_begin(s->trace, TRACE_FLASH_WAIT, s->block[b].first_layer, 0);
	if (!ret)
		ret = staging_need(s->staging, s->block[b].first_layer,
			phone_later(s->time->npu_ps, s->began_ps), &where, e);
	trace_end(s->trace, TRACE_FLASH_WAIT);
	if (ret)
		return ret;
	f->slot = (int)where;
	f->weights = s->stage[where].addr;
	f->run.extended = s->stage[where].extended;
	f->asked_ps = s->time->cpu_ps; /* flash has counters of its own */
	return 0;
}

/* Where the block's weights are, on the device. */
static int find_weights(
	struct session *s, uint32_t b, struct flight *f, struct err *e)
{
	int ret;

	if (s->block[b].streamed)
		return find_staged(s, b, f, e);
	if (!s->placement)
		return session_find_swapped(s, b, f, e);
	ret = placement_is_mapped(s->placement, b)
		? placement_need(s->placement, b, &f->weights, e)
		: bring_block(s, b, f, e);
	f->run.extended = placement_is_extended(s->placement, b);
	return ret;
}

/* What it was to read is not read; `ret` is why. */
static int not_sent(struct session *s, struct flight *f, int ret)
{
	flight_lets_go(s, f, s->time->cpu_ps);
	if (f->slot >= 0)
		staging_done(
			s->staging, (unsigned)f->slot, s->time->cpu_ps, NULL);
	return ret;
}

/* A run of the block's graph of that kind. */
static int send_run(struct pass *p, uint32_t b, uint32_t kind,
	const struct part *part, struct err *e)
{
	struct session *s = p->s;
	struct wire_ref refs[WIRE_MAX_REFS];
	struct wire_graph_run run = part->run;
	struct flight f = { .run = { b, run.rows, s->plan.graph_rows[kind],
				    part->longest, part->pieces ? s->cut : NULL,
				    part->pieces },
		.slot = -1,
		.swap = -1,
		.asked_ps = s->time->cpu_ps };
	unsigned n = 0;
	int ret = find_weights(s, b, &f, e);

	if (ret)
		return not_sent(s, &f, ret);
	if (!p->told) {
		n = sync_refs(s, &s->kv, refs);
		n += sync_refs(s, &s->io, refs + n);
		p->told = true;
	}
	n += bind(s, &f, part, refs + n);
	run.graph = graph_id(s, b, kind);
	f.sent_ps = s->time->cpu_ps;
	ret = npu_send(s->npu, refs, n, &run, sizeof(run), &f.seq, e);
	if (ret)
		return not_sent(s, &f, ret);
	flight_add(s, &f);
	return 0;
}

/* By the graph that the block has, in as many runs as that takes. */
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
			ret = flights_retire(s, e);
	}
	return ret;
}

static int send_block(struct pass *p, uint32_t b, struct err *e)
{
	const struct part whole = { .run = p->run,
		.longest = p->longest,
		.pieces = p->pieces,
		.places = p->batch };

	return p->s->switching ? send_switched(p, b, &whole, e)
			       : send_run(p, b, p->kind, &whole, e);
}

void session_read_on(void *arg)
{
	struct session *s = arg;

	staging_read_on(s->staging);
}

/*
 * Blocks [from, to): requests back to back, which complete behind one another.
 * While layers are streamed the device has two at most, the one that it
 * computes and the next, so that slots are free again soon.
 */
static int run_blocks(struct pass *p, uint32_t from, uint32_t to, struct err *e)
{
	struct session *s = p->s;
	int ret = 0;

	for (uint32_t b = from; b < to && !ret; b++) {
		ret = send_block(p, b, e);
		if (!ret && p->hooks && p->hooks->meanwhile)
			ret = p->hooks->meanwhile(p->hooks->arg, e);
		if (!ret && s->generation != p->generation)
			ret = err_set(e, ERR_DEVICE_LOST,
				"the device was replaced in the middle of a "
				"pass");
		if (!ret && s->block[b].streamed)
			ret = npu_drain_to(s->npu, 1, session_read_on, s, e);
		if (!ret)
			ret = flights_retire(s, e);
	}
	return ret ? ret : flights_wait(s, e);
}

/* ---- the exit ---- */

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

static int check_kept(const struct session *s, const struct rows *all,
	uint32_t i, struct err *e)
{
	uint32_t row = s->keep[i];
	int32_t parent;

	if (row >= all->n || (i && row <= s->keep[i - 1]))
		return err_set(e, EINVAL,
			"the rows that go on are not some of %u, ascending",
			all->n);
	parent = all->row[row].parent;
	if (parent >= 0 && s->place[parent] == DROPPED)
		return err_set(e, EINVAL,
			"row %u goes on but its parent %d does not", row,
			parent);
	return 0;
}

/* The rows of keep[n] as trees of their own, in some[n]. */
static int keep_rows(
	struct session *s, const struct rows *all, uint32_t n, struct err *e)
{
	for (uint32_t i = 0; i < all->n; i++)
		s->place[i] = DROPPED;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t row = s->keep[i];
		int ret = check_kept(s, all, i, e);

		if (ret)
			return ret;
		s->place[row] = i;
		s->some[i] = all->row[row];
		if (s->some[i].parent >= 0)
			s->some[i].parent =
				(int32_t)s->place[s->some[i].parent];
	}
	return 0;
}

/* Their states move together. */
static void keep_states(struct session *s, uint32_t n)
{
	size_t width = s->model->n_embd * sizeof(float);
	size_t bytes = s->hidden_rows * width;
	uint8_t *hidden;

	buffer_begin(s->io.buffer, s->plan.hidden_off, bytes, BUFFER_READ);
	hidden = buffer_begin(
		s->io.buffer, s->plan.hidden_off, n * width, BUFFER_WRITE);
	for (uint32_t i = 0; i < n; i++)
		memmove(hidden + i * width, hidden + s->keep[i] * width, width);
	buffer_end(s->io.buffer, s->plan.hidden_off, n * width, BUFFER_WRITE);
	buffer_end(s->io.buffer, s->plan.hidden_off, bytes, BUFFER_READ);
}

/* And the device is told of the fewer rows. */
static int write_kept(struct pass *p, uint32_t n, struct err *e)
{
	struct session *s = p->s;
	const struct rows kept = { SIGHT_TREE, n, s->some };
	uint32_t at[WIRE_MAX_ROWS];
	int32_t above[WIRE_MAX_ROWS];
	int ret = start_batch(s, &kept, e);

	if (ret)
		return ret;
	batch_place(s->batch, at, above);
	for (uint32_t i = 0; i < n; i++)
		s->upper[s->keep[i]] = at[i];
	keep_states(s, n);
	return write_batch(p, at, e);
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
	if (ret)
		return ret;
	ret = p->hooks->choose(p->hooks->arg, s->keep, &n, e);
	if (!ret && !n)
		ret = err_set(e, EINVAL, "no row goes on");
	if (!ret)
		ret = keep_rows(s, all, n, e);
	if (ret || n == all->n)
		return ret;
	ret = write_kept(p, n, e);
	set_rows(p, n);
	return ret;
}

/* ---- the whole ---- */

static uint32_t exit_block(const struct session *s)
{
	uint32_t b = 0;

	while (s->block[b].first_layer < s->opts.exit_layers)
		b++;
	return b;
}

static int run_layers(struct pass *p, const struct rows *rows, struct err *e)
{
	struct session *s = p->s;
	uint32_t from = 0;
	int ret;

	s->began_ps = s->time->cpu_ps;
	if (p->hooks && p->hooks->choose && s->opts.exit_layers) {
		from = exit_block(s);
		ret = run_blocks(p, 0, from, e);
		s->hidden_rows = rows->n;
		if (!ret)
			ret = leave_rows(p, rows, e);
		if (ret)
			return ret;
	}
	s->stats.upper_rows += p->run.rows;
	return run_blocks(p, from, s->n_blocks, e);
}

void session_settle(struct session *s)
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
			"the device was lost and no other has taken over");
	if (!rows->state != !s->model->behind)
		return err_set(e, EINVAL,
			"rows %s states for a model whose layers stand behind "
			"%u others",
			rows->state ? "with" : "without", s->model->behind);
	if (hooks && hooks->choose && rows->sight != SIGHT_TREE)
		return err_set(e, EINVAL,
			"only of a tree's rows may some be left behind in the "
			"middle of a pass");
	return start_batch(s, rows, e);
}

/* Slots for the rows, and what the device is to know of them. */
static int start_pass(struct pass *p, const struct rows *rows, struct err *e)
{
	struct session *s = p->s;
	int ret;

	session_settle(s);
	ret = sequences_claim(
		s->sequences, s->batch->claim, s->batch->n_parts, e);
	if (ret)
		return ret;
	memcpy(s->row, rows->row, rows->n * sizeof(*s->row));
	s->sight = rows->sight;
	s->kept_rows = rows->n;
	batch_place(s->batch, s->at, s->above);
	memcpy(s->upper, s->at, rows->n * sizeof(*s->upper));
	for (uint32_t i = 0; i < rows->n; i++)
		s->place[i] = i;
	ret = write_batch(p, s->at, e);
	if (!ret && s->switching)
		ret = switching_cut(s, p->hooks && p->hooks->choose, e);
	return ret ? ret : write_hidden(s, rows, e);
}

static void count_rows(struct session *s, uint32_t rows, uint32_t graph_rows)
{
	s->stats.passes++;
	s->stats.rows += rows;
	s->counts->passes++;
	s->counts->rows += rows;
	s->counts->graph += graph_rows;
	s->counts->tile += align_up(graph_rows, TILE);
}

static void tell_counts(struct session *s, uint32_t rows, uint32_t padded)
{
	uint64_t free = sequences_free(s->sequences);

	trace_count(s->trace, TRACE_ROWS, rows);
	trace_count(s->trace, TRACE_PADDED_ROWS, padded);
	trace_count(s->trace, TRACE_KV_SLOTS, s->plan.slots - free);
}

/* A pass ends that computed so many rows; one that failed counts none. */
static void tell_pass(struct session *s, uint32_t rows, uint32_t padded)
{
	if (!s->trace)
		return;
	trace_tell(s->trace,
		&(const struct trace_event){ .type = TRACE_END,
			.name = TRACE_PASS,
			.at = clock_ns(),
			.first = 1,
			.n = 2,
			.arg = { rows, padded } });
	tell_counts(s, rows, padded);
}

static int forward_untold(struct session *s, const struct rows *rows,
	const struct session_hooks *hooks, struct err *e)
{
	struct pass p = { .s = s,
		.hooks = hooks,
		.run = { .op = WIRE_GRAPH_RUN, .flags = session_flags(s) },
		.generation = s->generation };
	uint64_t padded = s->stats.padded_rows, upper = s->stats.upper_rows;
	uint64_t began = clock_ns();
	uint32_t graph_rows = 0;
	int ret = check_forward(s, rows, hooks, e);

	if (ret)
		return ret;
	session_watch(s);
	if (s->flights) /* of a pass that was broken off */
		ret = flights_wait(s, e);
	if (!ret)
		ret = start_pass(&p, rows, e);
	if (!ret) {
		set_rows(&p, rows->n);
		graph_rows = p.graph_rows;
		ret = run_layers(&p, rows, e);
		s->stats.pass_ns += clock_ns() - began;
	}
	if (ret) {
		s->stats.padded_rows = padded;
		s->stats.upper_rows = upper;
		session_settle(s);
		return ret;
	}
	s->hidden_rows = rows->n;
	s->stats.mixed_passes += s->batch->n_parts > 1;
	count_rows(s, rows->n, graph_rows);
	return 0;
}

static int forward(struct session *s, const struct rows *rows,
	const struct session_hooks *hooks, struct err *e)
{
	uint64_t padded = s->stats.padded_rows;
	int ret;

	trace_begin(s->trace, TRACE_PASS, rows->n, 0);
	ret = forward_untold(s, rows, hooks, e);
	tell_pass(s, ret ? 0 : rows->n,
		(uint32_t)(s->stats.padded_rows - padded));
	return ret;
}

/*
 * Again from the rows, where the device was lost: what the broken pass wrote
 * lies in slots that it had claimed, and is written anew. A session beside
 * this one may have found the loss in a hook, and have mended it for both.
 */
int session_forward_with(struct session *s, const struct rows *rows,
	const struct session_hooks *hooks, struct err *e)
{
	int ret = session_follow(s, e);

	for (;;) {
		unsigned generation = s->generation;
		uint32_t at = s->switching ? s->switching->at : 0;

		if (!ret)
			ret = forward(s, rows, hooks, e);
		if (!ret) {
			npu_went_on(s->npu);
			return 0;
		}
		if (s->switching && !s->switching->measured)
			return ret; /* all of the measuring is repeated */
		if (ret == -ERR_DEVICE_LOST && s->attached &&
			s->generation != generation)
			ret = 0;
		else
			ret = session_recover(s, ret, e);
		if (ret)
			return ret;
		if (s->switching)
			s->switching->at = at;
	}
}

int session_forward(struct session *s, const struct rows *rows, struct err *e)
{
	return session_forward_with(s, rows, NULL, e);
}

int session_continue_with(struct session *s, uint32_t sequence,
	const int32_t *token, uint32_t n, const struct session_hooks *hooks,
	struct err *e)
{
	bool chain = s->model->causal || s->model->block_length;
	const struct rows rows = { .sight = chain ? SIGHT_TREE : SIGHT_WINDOW,
		.n = n,
		.row = s->some };
	uint32_t length = sequence_is_open(s->sequences, sequence)
		? session_length(s, sequence)
		: 0;

	/* More are refused by their number. */
	rows_tree(s->some, sequence, length, token, NULL,
		n < s->plan.max_rows ? n : s->plan.max_rows);
	return session_forward_with(s, &rows, hooks, e);
}

int session_continue(struct session *s, uint32_t sequence, const int32_t *token,
	uint32_t n, struct err *e)
{
	return session_continue_with(s, sequence, token, n, NULL, e);
}
