/*
 * A pass: rows through all layers on the device, some of which may be left
 * behind in the middle.
 */
#include "host/session/pass_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
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
	p->s->stats.padded_rows += p->graph_rows - n;
	p->told = false;
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

	while (s->block[s->order[b]].first_layer < s->opts.exit_layers)
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
		ret = pass_run_blocks(p, 0, from, e);
		s->hidden_rows = rows->n;
		if (!ret)
			ret = leave_rows(p, rows, e);
		if (ret)
			return ret;
	}
	s->stats.upper_rows += p->run.rows;
	return pass_run_blocks(p, from, s->n_blocks, e);
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
			"rows %s states for a model whose layers follow %u "
			"others",
			rows->state ? "with" : "without", s->model->behind);
	if (hooks && hooks->choose && rows->sight != SIGHT_TREE)
		return err_set(e, EINVAL,
			"only rows of a tree may be dropped in the middle of a "
			"pass");
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
	ret = pass_write_batch(p, s->at, e);
	if (!ret && s->switching)
		ret = switching_cut(s, p->hooks && p->hooks->choose, e);
	return ret ? ret : pass_write_hidden(s, rows, e);
}

static uint32_t rows_of_prompts(const struct session *s, uint32_t rows)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rows; i++)
		n += s->row[i].prompt;
	return n;
}

/* A pass that reads prompts beside other rows is one of those, and its padding
 * is theirs. */
static void count_rows(struct session *s, uint32_t rows, uint32_t graph_rows)
{
	uint32_t read = rows_of_prompts(s, rows);
	struct row_counts all = { .passes = 1,
		.rows = rows,
		.graph = graph_rows,
		.tile = align_up(graph_rows, TILE) };
	struct row_counts beside = {
		.rows = read, .graph = read, .tile = read
	};

	s->stats.passes++;
	s->stats.rows += rows;
	if (read == rows) {
		row_counts_add(&s->stats.prompt_rows, &all);
		return;
	}
	row_counts_since(&all, &beside);
	row_counts_add(&s->stats.prompt_rows, &beside);
	row_counts_add(s->counts, &all);
}

/* By its number, should it be one: texts that have rows of it lead there. */
static void tell_pass_begins(struct session *s, uint32_t rows)
{
	if (s->trace)
		trace_tell(s->trace,
			&(const struct trace_event){ .type = TRACE_BEGIN,
				.name = TRACE_PASS,
				.at = clock_ns(),
				.n = 1,
				.arg = { rows },
				.flow = trace_pass_flow(s->stats.passes + 1) });
}

/* A pass ends that computed so many rows; one that failed counts none. */
static void tell_pass_ends(struct session *s, uint32_t rows, uint32_t padded)
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
	trace_count(s->trace, TRACE_ROWS, rows);
	trace_count(s->trace, TRACE_PADDED_ROWS, padded);
	trace_count(s->trace, TRACE_KV_SLOTS,
		s->plan.slots - sequences_free(s->sequences));
}

static int forward(struct session *s, const struct rows *rows,
	const struct session_hooks *hooks, struct err *e)
{
	struct pass p = { .s = s,
		.hooks = hooks,
		.run = { .op = WIRE_GRAPH_RUN, .flags = session_flags(s) },
		.generation = s->generation };
	uint64_t padded = s->stats.padded_rows, upper = s->stats.upper_rows;
	uint64_t began = clock_ns();
	uint32_t graph_rows = 0;
	int ret;

	tell_pass_begins(s, rows->n);
	ret = check_forward(s, rows, hooks, e);
	if (ret) {
		tell_pass_ends(s, 0, 0);
		return ret;
	}
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
	} else {
		s->hidden_rows = rows->n;
		s->stats.mixed_passes += s->batch->n_parts > 1;
		count_rows(s, rows->n, graph_rows);
	}
	tell_pass_ends(s, ret ? 0 : rows->n,
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
