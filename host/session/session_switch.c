#include "host/session/session_impl.h"
#include "host/session/switching.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/session/batch.h"
#include "host/session/sequence.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ------------------------------------------------------------- */

int switching_open(struct session *s, struct err *e)
{
	const uint32_t *rows = s->plan.graph_rows;
	struct switching *sw;

	if (s->n_blocks > SWITCH_BLOCKS)
		return err_set(e, EINVAL,
			"--graph-switch can plan for at most %d blocks of "
			"layers, but with this window there are %u; try a "
			"larger --va-window",
			SWITCH_BLOCKS, s->n_blocks);
	s->switching = sw = calloc(1, sizeof(*sw));
	if (!sw)
		return err_set(e, ENOMEM, "no memory for graph switching");
	sw->most_parts = (rows[GRAPH_PREFILL] + rows[GRAPH_DECODE] - 1) /
		rows[GRAPH_DECODE];
	sw->part = calloc(sw->most_parts, sizeof(*sw->part));
	sw->row = calloc(rows[GRAPH_DECODE], sizeof(*sw->row));
	if (!sw->part || !sw->row)
		return err_set(e, ENOMEM,
			"no memory to compute %u rows in parts, with graph "
			"switching",
			rows[GRAPH_PREFILL]);
	for (uint32_t b = 0; b < s->n_blocks; b++)
		sw->kind[b] = GRAPH_PREFILL;
	sw->stats.blocks = s->n_blocks;
	sw->stats.prefill_rows = rows[GRAPH_PREFILL];
	sw->stats.decode_rows = rows[GRAPH_DECODE];
	return 0;
}

void switching_close(struct switching *sw)
{
	if (!sw)
		return;
	free(sw->part);
	free(sw->row);
	free(sw->log);
	free(sw);
}

int switching_attach(struct session *s, struct err *e)
{
	struct switching *sw = s->switching;
	int ret = 0;

	sw->dropping = sw->loading = sw->lacks = false;
	for (uint32_t b = 0; b < s->n_blocks && !ret; b++)
		ret = session_load_graph(s, b, sw->kind[b], NULL, e);
	if (!ret)
		ret = npu_drain(s->npu, 0, NULL, NULL, e);
	return ret || sw->measured ? ret : switching_measure(s, e);
}

uint32_t switching_rows(const struct session *s, uint32_t n)
{
	uint32_t rows = s->plan.graph_rows[s->switching->kind[0]];

	return (n + rows - 1) / rows * rows;
}

/* ---- the clock, and the log of events ------------------------------------ */

static uint64_t now(const struct session *s)
{
	return s->opts.soc ? s->time->cpu_ps : clock_ns();
}

static void note(struct session *s, const struct graph_event *event)
{
	struct switching *sw = s->switching;
	struct graph_event *to;

	if (!sw->noting || sw->n_log == sw->log_room)
		return;
	to = &sw->log[sw->n_log++];
	*to = *event;
	to->begin -= sw->began;
	to->end -= sw->began;
	to->chunk = sw->at ? (sw->at - 1) / s->n_blocks : 0;
}

/* ---- loads --------------------------------------------------------------- */

static int send_load(struct session *s, struct err *e)
{
	struct switching *sw = s->switching;
	int ret = session_load_graph(
		s, sw->block, sw->kind[sw->block], &sw->load_seq, e);

	sw->lacks = ret != 0;
	sw->loading = !ret;
	return ret;
}

int switching_wait(struct session *s, struct err *e)
{
	struct switching *sw = s->switching;
	int ret = sw->lacks ? send_load(s, e) : 0;

	if (!ret && sw->loading)
		ret = npu_wait(s->npu, sw->load_seq, e);
	/* The real device may have answered before the load ends in simulated
	 * phone time. */
	if (!ret && s->opts.soc)
		phone_wait(s->time, sw->end);
	return ret;
}

/* Send the request to drop the old graph before the request to load the new
 * graph. The device executes requests in order, so the block never has two
 * graphs at the same time. */
int switching_load(
	struct session *s, uint32_t block, enum graph_kind kind, struct err *e)
{
	struct switching *sw = s->switching;
	struct wire_simple drop = { WIRE_GRAPH_DROP,
		graph_id(s, block, sw->kind[block]) };
	int ret = switching_wait(s, e);

	if (ret)
		return ret;
	sw->sent_ps = s->time->cpu_ps;
	sw->block = block;
	ret = npu_send(s->npu, NULL, 0, &drop, sizeof(drop), &sw->drop_seq, e);
	if (ret)
		return ret;
	sw->dropping = true;
	sw->kind[block] = kind;
	return send_load(s, e);
}

bool switching_answered(struct session *s, uint32_t seq, const struct price *p)
{
	struct switching *sw = s->switching;
	uint64_t from = phone_later(s->time->npu_ps, sw->sent_ps);
	enum graph_kind kind = sw->kind[sw->block];
	struct graph_event event = { .begin = sw->begin,
		.block = sw->block,
		.rows = s->plan.graph_rows[kind],
		.load = true };
	struct price as;

	if (sw->dropping && seq == sw->drop_seq) {
		/* The simulated loader starts when the old graph is dropped,
		 * which is after all earlier runs. */
		sw->dropping = false;
		sw->begin = s->opts.soc ? phone_later(s->time->loader_ps, from)
					: clock_ns();
		phone_loader(s->time, from, p);
		return true;
	}
	if (!sw->loading || seq != sw->load_seq)
		return false;

	if (s->opts.as && s->opts.soc) {
		/* The cost of loading a graph depends on its weights, but not
		 * on its number of rows. */
		price_graph_load(s->opts.soc,
			pricing_bytes(&s->pricing, sw->block,
				pricing_share(&s->pricing, sw->block)),
			&as);
		p = &as;
	}
	event.end = phone_loader(s->time, 0, p);
	if (!s->opts.soc)
		event.end = clock_ns();
	sw->loading = false;
	sw->end = event.end;
	note(s, &event);
	if (sw->sample) {
		sw->load[kind][sw->block] = event.end - event.begin;
	} else if (kind == GRAPH_DECODE) {
		sw->stats.loads++;
		sw->stats.load_time += event.end - event.begin;
	} else {
		sw->stats.reloads++;
		sw->stats.reload_time += event.end - event.begin;
	}
	return true;
}

/* ---- runs ---------------------------------------------------------------- */

void switching_ran(
	struct session *s, const struct inflight *f, uint64_t busy_ns)
{
	struct switching *sw = s->switching;
	struct graph_event event = { .block = f->run.block,
		.rows = f->run.graph_rows };

	if (s->opts.soc) {
		event.end = f->end_ps;
		event.begin = f->end_ps - f->took_ps;
	} else {
		event.end = clock_ns();
		event.begin = phone_later(event.end - busy_ns, sw->run_end);
	}
	sw->run_end = event.end;
	note(s, &event);
	if (sw->sample)
		sw->sample[f->run.block] = s->opts.soc ? f->took_ps : busy_ns;
}

/* Start the next load of a decode graph, as planned. A replacement device
 * already has all graphs whose loads were sent to the lost device, so such a
 * load is skipped. */
static int load_next(struct session *s, struct err *e)
{
	struct switching *sw = s->switching;
	uint32_t block = sw->plan.load[sw->next].block;
	int ret = 0;

	if (sw->kind[block] != GRAPH_DECODE)
		ret = switching_load(s, block, GRAPH_DECODE, e);
	if (!ret)
		sw->next++;
	return ret;
}

int switching_before(struct session *s, uint32_t block, struct err *e)
{
	struct switching *sw = s->switching;
	int ret = 0;

	while (sw->running && sw->next < sw->plan.n_loads &&
		sw->plan.load[sw->next].before == sw->at && !ret)
		ret = load_next(s, e);
	sw->at++;
	return !ret && sw->block == block ? switching_wait(s, e) : ret;
}

/* ---- a prompt ------------------------------------------------------------ */

/* The expected times of a prompt's executions (in an execution, one block
 * computes one chunk of the prompt), and the plan made from these times. */
struct prospect {
	struct switch_problem problem;
	/* [2][chunks][blocks] expected times with the decode graph, and with
	 * the prefill graph */
	uint64_t *time;
	bool switched[SWITCH_BLOCKS];
	struct switch_plan plan;
	/* expected time of the prompt, including loads of prefill graphs before
	 * the prompt */
	uint64_t takes;
};

static int expect_times(const struct session *s, struct prospect *p,
	uint32_t cached, size_t n, struct err *e)
{
	uint32_t chunk = s->opts.prefill_chunk, blocks = s->n_blocks;
	uint32_t chunks = (uint32_t)((n + chunk - 1) / chunk);
	size_t runs = (size_t)chunks * blocks;

	p->time = calloc(2 * runs, sizeof(*p->time));
	if (!p->time)
		return err_set(e, ENOMEM,
			"no memory to plan graph switching for %u chunks of a "
			"prompt",
			chunks);
	for (size_t i = 0; i < runs; i++) {
		uint32_t first = (uint32_t)(i / blocks) * chunk;
		uint32_t b = (uint32_t)(i % blocks);
		uint32_t rows =
			n - first < chunk ? (uint32_t)(n - first) : chunk;

		for (enum graph_kind k = 0; k < GRAPH_KINDS; k++)
			p->time[k * runs + i] =
				switching_expect(s, k, b, cached + first, rows);
	}
	p->problem = (struct switch_problem){ .blocks = blocks,
		.chunks = chunks,
		.load = s->switching->load[GRAPH_DECODE],
		.prefill = p->time + GRAPH_PREFILL * runs,
		.decode = p->time + GRAPH_DECODE * runs,
		.switched = p->switched };
	return 0;
}

/* Make a plan that starts from the blocks' current graphs. If `back` is set,
 * the plan assumes that all blocks load their prefill graphs first. */
static int plan_from(
	const struct session *s, struct prospect *p, bool back, struct err *e)
{
	const struct switching *sw = s->switching;
	uint64_t before = 0;
	int ret;

	for (uint32_t b = 0; b < s->n_blocks; b++) {
		bool is = sw->kind[b] == GRAPH_DECODE;

		p->switched[b] = is && !back;
		before += is && back ? sw->load[GRAPH_PREFILL][b] : 0;
	}
	ret = switch_plan(&p->plan, &p->problem, s->opts.graph_switch, e);
	if (ret)
		return ret;
	p->takes = before + switch_simulate(&p->problem, &p->plan, NULL, NULL);
	return 0;
}

static bool any_switched(const struct session *s)
{
	for (uint32_t b = 0; b < s->n_blocks; b++)
		if (s->switching->kind[b] == GRAPH_DECODE)
			return true;
	return false;
}

/* Load the prefill graphs of all blocks. If the device is lost during the
 * loads, load the graphs on the new device. */
static int load_back(struct session *s, struct err *e)
{
	int ret = 0;

	for (;;) {
		npu_watch(s->npu, session_request_done, s);
		for (uint32_t b = 0; b < s->n_blocks && !ret; b++)
			if (s->switching->kind[b] == GRAPH_DECODE)
				ret = switching_load(s, b, GRAPH_PREFILL, e);
		if (!ret)
			ret = switching_wait(s, e);
		if (!ret || (ret = session_recover(s, ret, e)))
			return ret;
	}
}

int session_rest(struct session *s, struct err *e)
{
	return s->switching ? load_back(s, e) : 0;
}

int switching_begin(struct session *s, uint32_t cached, size_t n, struct err *e)
{
	struct switching *sw = s->switching;
	struct prospect *here = calloc(2, sizeof(*here)), *back, *best;
	size_t room;
	int ret;

	if (!here)
		return err_set(e, ENOMEM,
			"no memory to plan graph switching for a prompt");
	back = &here[1];
	best = here;
	ret = expect_times(s, here, cached, n, e);
	if (!ret)
		ret = plan_from(s, here, false, e);
	if (!ret && any_switched(s)) {
		*back = *here;
		back->problem.switched = back->switched;
		ret = plan_from(s, back, true, e);
		if (!ret && back->takes < here->takes)
			best = back;
	}
	if (ret)
		goto out;
	/* number of log entries for all runs of a prompt, plus all loads */
	room = ((size_t)here->problem.chunks * sw->most_parts + 2) *
		s->n_blocks;
	sw->n_log = 0;
	if (room > sw->log_room) {
		free(sw->log);
		sw->log_room = 0;
		sw->log = calloc(room, sizeof(*sw->log));
		if (!sw->log) {
			ret = err_set(e, ENOMEM,
				"no memory for a record of %zu runs of graphs",
				room);
			goto out;
		}
		sw->log_room = room;
	}
	sw->at = sw->next = 0;
	sw->began = sw->run_end = now(s);
	sw->noting = true;
	if (best == back)
		ret = load_back(s, e);
	sw->plan = best->plan;
	sw->stats.planned_time += best->takes;
	sw->running = sw->noting = !ret;
out:
	free(here->time);
	free(here);
	return ret;
}

int switching_end(struct session *s, int ret, struct err *e)
{
	struct switching *sw = s->switching;
	uint32_t rows = s->plan.graph_rows[GRAPH_DECODE];

	/* Load the remaining graphs. If the device is lost during the loads,
	 * load the graphs on the new device. */
	while (!ret) {
		npu_watch(s->npu, session_request_done, s);
		while (sw->next < sw->plan.n_loads && !ret)
			ret = load_next(s, e);
		if (!ret)
			ret = switching_wait(s, e);
		if (!ret)
			break;
		ret = session_recover(s, ret, e);
	}
	sw->running = sw->noting = false;
	sw->stats.prompts++;
	sw->stats.prompt_time += now(s) - sw->began;
	/* Add the time of decode graph loads during which nothing was computed:
	 * the duration of each load minus its overlap with runs. Runs do not
	 * overlap each other, nor do loads, so the overlaps can simply be
	 * subtracted. */
	for (size_t i = 0; i < sw->n_log; i++) {
		const struct graph_event *load = &sw->log[i];

		if (!load->load || load->rows != rows)
			continue;
		sw->stats.wait_time += load->end - load->begin;
		for (size_t k = 0; k < sw->n_log; k++) {
			const struct graph_event *run = &sw->log[k];
			uint64_t from = phone_later(run->begin, load->begin);
			uint64_t to =
				run->end < load->end ? run->end : load->end;

			if (!run->load && to > from)
				sw->stats.wait_time -= to - from;
		}
	}
	return ret;
}

/* ---- a pass in parts ----------------------------------------------------- */

/*
 * If a block's graph has fewer rows than the pass, the block runs once for each
 * part of the rows. Each part finds the keys and values of earlier parts in the
 * cache. The results have the same bytes as in a single run, because sums are
 * computed in the same order.
 */
int switching_cut(struct session *s, bool some, struct err *e)
{
	uint32_t n = s->batch->rows.n;
	uint32_t rows = s->plan.graph_rows[GRAPH_DECODE];
	struct switching *sw = s->switching;
	size_t bytes;
	uint8_t *to;
	int ret = 0;

	sw->n_parts = 0;
	/* Parts are needed only if a block has its smaller graph, or may get
	 * the smaller graph while the pass runs. */
	if (n <= rows || !(sw->running || any_switched(s)))
		return 0;
	if (some || !batch_is_chain(s->batch))
		return err_set(e, EINVAL,
			"a tree of %u rows cannot be computed while graph "
			"switching keeps only graphs of %u rows loaded",
			n, rows);
	sw->n_parts = (n + rows - 1) / rows;
	bytes = sw->n_parts * s->plan.part_bytes;
	to = buffer_begin(s->io.buffer, s->plan.parts_off, bytes, BUFFER_WRITE);
	for (uint32_t i = 0; i < sw->n_parts && !ret; i++) {
		uint32_t first = i * rows, left = n - first;
		uint8_t *filled = to + i * s->plan.part_bytes;
		struct part *part = &sw->part[i];

		*part = (struct part){ .first = first,
			.off = s->plan.parts_off + i * s->plan.part_bytes,
			.run = { .op = WIRE_GRAPH_RUN,
				.flags = session_flags(s) } };
		batch_part_of(s->batch, first, left < rows ? left : rows,
			sw->row, &sw->batch);
		ret = batch_fill(filled, &sw->batch, s->sequences,
			s->at + first, s->plan.span_room, &part->run, e);
		part->places = batch_bytes(part->run.rows, part->run.n_spans);
		if (!ret && s->opts.as)
			part->longest = batch_longest(filled, &part->run);
	}
	buffer_end(s->io.buffer, s->plan.parts_off, bytes, BUFFER_WRITE);
	return ret;
}

/* ---- counters ------------------------------------------------------------ */

void switching_stats(const struct session *s, struct npu_stats *npu,
	struct switch_stats *out)
{
	npu_stats_less(npu, &s->switching->warm_up);
	*out = s->switching->stats;
	out->most_graphs = npu->most_graphs;
	out->most_graphs_kib = npu->most_graphs_kib;
}

const struct graph_event *session_graph_log(const struct session *s, size_t *n)
{
	*n = s->switching ? s->switching->n_log : 0;
	return s->switching ? s->switching->log : NULL;
}
