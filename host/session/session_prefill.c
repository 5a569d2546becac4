/*
 * Prefill of a prompt, chunk by chunk. After a chunk the device can predict the
 * tokens that follow each of the chunk's tokens (struct wire_output).
 */
#include "host/session/session_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "host/session/switching.h"
#include "tensor/soc/soc.h"

#include <errno.h>

/* ---- predictions --------------------------------------------------------- */

static size_t likely_bytes(const struct session *s, uint32_t rows)
{
	return (size_t)rows * s->opts.prompt_top_k * sizeof(struct wire_likely);
}

/* The price of a run of the shape in place of the real model's. */
static void price_instead(struct session *s, uint32_t kind, uint32_t rows,
	unsigned refs, struct price *as)
{
	struct price maintenance;
	uint64_t bytes = align_up(likely_bytes(s, rows), COHERENCE_LINE);

	pricing_likely(&s->pricing, s->plan.graph_rows[kind], rows,
		s->output.extended, as);
	s->instead_rings =
		session_ring_bytes(s, refs, sizeof(struct wire_graph_run));
	/* One level of cache is cleaned by lines; two are cleaned whole. */
	if (s->opts.contract == COHERENCE_TWO_LEVELS)
		bytes = (uint64_t)s->opts.soc->l2_bytes;
	price_maintenance(s->opts.soc, s->instead_rings + bytes, &maintenance);
	price_add(as, &maintenance);
	s->instead = as;
}

/* Run the output graph for the rows of the last pass. */
static int run_output(struct session *s, uint32_t rows, struct err *e)
{
	uint32_t kind = s->switching ? s->plan.n_graphs - 1 : 0;
	struct wire_graph_run run = {
		.op = WIRE_GRAPH_RUN, .rows = rows, .flags = session_flags(s)
	};
	const struct wire_ref refs[] = {
		{ .role = WIRE_REF_WEIGHTS,
			.flags = s->output.extended ? WIRE_REF_EXTENDED : 0,
			.addr = s->output.addr,
			.len = (uint32_t)s->plan.output_room },
		{ .role = WIRE_REF_HIDDEN_IN,
			.addr = s->io.addr + (uint32_t)s->plan.hidden_off,
			.len = rows * s->model->n_embd *
				(uint32_t)sizeof(float) },
		{ .role = WIRE_REF_HIDDEN_OUT,
			.addr = s->io.addr + (uint32_t)s->plan.likely_off,
			.len = (uint32_t)likely_bytes(s, rows) },
	};
	struct price as;
	uint32_t seq;
	int ret;

	while (s->plan.graph_rows[kind] < rows)
		kind++;
	run.graph = output_graph_id(s, kind);
	if (s->opts.soc && (s->opts.as || s->pricing.by_cpu))
		price_instead(s, kind, rows, ARRAY_LEN(refs), &as);
	session_watch(s);
	ret = npu_send(
		s->npu, refs, ARRAY_LEN(refs), &run, sizeof(run), &seq, e);
	if (!ret)
		ret = npu_wait(s->npu, seq, e);
	s->instead = NULL;
	return ret;
}

/* Pass what the device predicted after one row to the reader. */
static int tell(struct session *s, const struct session_reader *reader,
	size_t at, const struct wire_likely *likely, struct err *e)
{
	uint32_t n = 0;

	for (; n < s->opts.prompt_top_k && likely[n].probability > 0; n++)
		if (likely[n].token >= s->model->n_vocab ||
			likely[n].probability > 1)
			return err_set(e, EPROTO,
				"the device predicted token %u of %u with "
				"probability %g",
				likely[n].token, s->model->n_vocab,
				(double)likely[n].probability);
	reader->likely(reader->arg, at, likely, n);
	return 0;
}

/* After a chunk with tokens [first, first + rows): let the device predict, and
 * pass what the reader wants to it. The states of the chunk's rows outlive a
 * lost device, so a replacement goes on from them. */
static int predict(struct session *s, const struct session_reader *reader,
	size_t first, uint32_t rows, struct err *e)
{
	size_t bytes = likely_bytes(s, rows), off = s->plan.likely_off;
	uint32_t top_k = s->opts.prompt_top_k, last = rows;
	bool wanted[WIRE_MAX_ROWS];
	const struct wire_likely *all;
	int ret;

	for (uint32_t i = 0; i < rows; i++) {
		wanted[i] = reader->wants(reader->arg, first + i);
		last = wanted[i] ? i : last;
	}
	if (last == rows)
		return 0;
	trace_begin(s->trace, TRACE_LOGITS, rows, 0);
	do {
		ret = run_output(s, rows, e);
	} while (ret && !(ret = session_recover(s, ret, e)));
	trace_end(s->trace, TRACE_LOGITS);
	if (ret)
		return ret;
	npu_went_on(s->npu);
	all = (const void *)buffer_begin(s->io.buffer, off, bytes, BUFFER_READ);
	for (uint32_t i = 0; i < rows && !ret; i++)
		if (wanted[i])
			ret = tell(s, reader, first + i,
				all + (size_t)i * top_k, e);
	buffer_end(s->io.buffer, off, bytes, BUFFER_READ);
	return ret;
}

/* ---- a prompt ------------------------------------------------------------ */

static int read_chunk(struct session *s, uint32_t sequence,
	const int32_t *token, size_t first, uint32_t rows,
	const struct session_reader *reader, struct err *e)
{
	int ret = session_continue(s, sequence, token + first, rows, NULL, e);

	for (uint32_t i = 0; !ret && reader && reader->tapped && i < rows; i++)
		reader->tapped(reader->arg, first + i, session_tapped(s, i));
	if (!ret && reader && reader->wants)
		ret = predict(s, reader, first, rows, e);
	return ret ? ret : session_accept(s, sequence, NULL, rows, e);
}

int session_prefill(struct session *s, uint32_t sequence, const int32_t *token,
	size_t n, const struct session_reader *reader, uint32_t *last_row,
	struct err *e)
{
	uint32_t chunk = s->opts.prefill_chunk;
	uint64_t began = s->time->cpu_ps;
	int ret = 0;

	if (!n)
		return err_set(e, EINVAL, "nothing to prefill");
	s->counts = &s->stats.prompt_rows;
	trace_begin(s->trace, TRACE_PROMPT, n, 0);
	/* With graph switching, the blocks' graphs are replaced while the
	 * chunks run. */
	if (s->switching)
		ret = switching_begin(s, session_length(s, sequence), n, e);
	for (size_t i = 0; i < n && !ret; i += chunk) {
		uint32_t rows = n - i < chunk ? (uint32_t)(n - i) : chunk;

		ret = read_chunk(s, sequence, token, i, rows, reader, e);
		*last_row = rows - 1;
	}
	if (s->switching)
		ret = switching_end(s, ret, e);
	s->counts = &s->stats.decode_rows;
	trace_end(s->trace, TRACE_PROMPT);
	s->stats.prompt_ps += s->time->cpu_ps - began;
	return ret;
}
