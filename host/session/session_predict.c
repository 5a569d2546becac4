/*
 * Predictions of the device: the likeliest next tokens after each row of a
 * pass. An output graph (struct wire_output) computes them from the hidden
 * states of the pass.
 */
#include "host/session/session_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/npu/npu.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <string.h>

static size_t likely_bytes(const struct session *s, uint32_t rows)
{
	return (size_t)rows * s->opts.predict_top_k *
		sizeof(struct wire_likely);
}

/* Run the output graph for the first `rows` states. */
static int run_output(struct session *s, uint32_t rows, struct err *e)
{
	uint32_t kind = 0;
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
	uint64_t bytes = align_up(likely_bytes(s, rows), COHERENCE_LINE);
	struct price as, maintenance;
	uint32_t seq;
	int ret;

	while (s->plan.graph_rows[kind] < rows)
		kind++;
	run.graph = graph_id(s, s->n_blocks, kind);
	/* If costs are simulated for another model shape (opts.as) or for the
	 * CPU (by_cpu), charge this cost instead of the cost that the device
	 * reports for the real model on the NPU. */
	if (s->opts.soc && (s->opts.as || s->pricing.by_cpu)) {
		pricing_likely(&s->pricing, s->plan.graph_rows[kind], rows,
			s->output.extended, &as);
		s->instead_rings =
			session_ring_bytes(s, ARRAY_LEN(refs), sizeof(run));
		/* With one level of cache, only the lines of the results are
		 * cleaned; with two levels, the whole cache is cleaned. */
		if (s->opts.contract == COHERENCE_TWO_LEVELS)
			bytes = (uint64_t)s->opts.soc->l2_bytes;
		price_maintenance(
			s->opts.soc, s->instead_rings + bytes, &maintenance);
		price_add(&as, &maintenance);
		s->instead = &as;
	}
	npu_watch(s->npu, session_request_done, s);
	ret = npu_send(
		s->npu, refs, ARRAY_LEN(refs), &run, sizeof(run), &seq, e);
	if (!ret)
		ret = npu_wait(s->npu, seq, e);
	s->instead = NULL;
	return ret;
}

/* If the device is lost, a replacement device can compute the predictions,
 * because the states are in shared memory. */
int session_predict(struct session *s, struct err *e)
{
	size_t off = s->plan.likely_off, bytes;
	uint32_t rows = 0;
	int ret;

	for (uint32_t i = 0; i < s->hidden_rows; i++)
		if (s->place[i] != DROPPED && s->place[i] >= rows)
			rows = s->place[i] + 1;
	if (!rows || !s->output.buffer)
		return err_set(e, EINVAL,
			"the device cannot predict tokens yet: %s is missing",
			rows ? "an output graph" : "a pass");
	trace_begin(s->trace, TRACE_LOGITS, rows, 0);
	do {
		ret = run_output(s, rows, e);
	} while (ret && !(ret = session_recover(s, ret, e)));
	trace_end(s->trace, TRACE_LOGITS);
	if (ret)
		return ret;
	npu_went_on(s->npu);
	bytes = likely_bytes(s, rows);
	memcpy(s->likely, buffer_begin(s->io.buffer, off, bytes, BUFFER_READ),
		bytes);
	buffer_end(s->io.buffer, off, bytes, BUFFER_READ);
	/* Check the tokens and probabilities: the device is not trusted. */
	for (size_t i = 0; i < (size_t)rows * s->opts.predict_top_k; i++) {
		const struct wire_likely *l = &s->likely[i];

		if (l->probability > 0 &&
			(l->token >= s->model->n_vocab || l->probability > 1))
			return err_set(e, EPROTO,
				"the device predicted token %u of %u with "
				"probability %g",
				l->token, s->model->n_vocab,
				(double)l->probability);
	}
	return 0;
}

const struct wire_likely *session_predicted(
	const struct session *s, uint32_t row, uint32_t *n)
{
	const struct wire_likely *likely;

	*n = 0;
	if (s->place[row] == DROPPED)
		return NULL;
	likely = s->likely + (size_t)s->place[row] * s->opts.predict_top_k;
	while (*n < s->opts.predict_top_k && likely[*n].probability > 0)
		++*n;
	return likely;
}
