/*
 * Trace events of submitted requests. Each request has its own track, which is
 * a row of the trace viewer. The track shows when the request is queued, when
 * it reads its prompt, when it decodes, and how many rows it has in each pass.
 * If the request does not share passes, its track shows only the time in the
 * queue; its decoding is shown on the track of the calling thread.
 */
#include "base/clock.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/text/generation.h"
#include "host/trace/trace.h"

/* Emit an event of kind `name`. arg[k] (k < n) is the value of argument number
 * `first` + k of this kind of event. */
static void emit(const struct tandem_submitted *x, enum trace_type type,
	enum trace_name name, uint64_t at, uint32_t first, uint32_t n,
	const uint64_t *arg)
{
	struct trace_event v = { .type = type,
		.name = name,
		.track = TRACE_ON_TEXTS,
		.lane = x->trace_lane,
		.at = at,
		.first = first,
		.n = n };

	for (uint32_t i = 0; i < n; i++)
		v.arg[i] = arg[i];
	trace_emit(session_trace(x->tandem->decoder.session), &v);
}

static bool lane_is_taken(const struct tandem *t, uint32_t lane)
{
	for (const struct tandem_submitted *x = t->first_request; x;
		x = x->next)
		if (x->traced != TRACED_NOTHING && x->trace_lane == lane)
			return true;
	return false;
}

void request_trace_submitted(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	uint32_t lane = 0;

	x->number = ++t->submitted;
	if (!session_trace(t->decoder.session) ||
		x->state != REQUEST_UNFINISHED)
		return;
	while (lane < TRACE_LANES && lane_is_taken(t, lane))
		lane++;
	if (lane == TRACE_LANES)
		return;
	x->trace_lane = lane;
	x->traced = TRACED_QUEUED;
	emit(x, TRACE_BEGIN, TRACE_QUEUED, x->submitted_ns, 0, 1, &x->number);
}

void request_trace_begun(struct tandem_submitted *x)
{
	uint64_t prompt = gen_prompt_length(x->generation), left;

	if (x->traced != TRACED_QUEUED)
		return;
	emit(x, TRACE_END, TRACE_QUEUED, x->began_ns, 0, 0, NULL);
	x->traced = x->shared ? TRACED_PROMPT : TRACED_NOTHING;
	if (!x->shared)
		return;
	left = prompt - x->cached;
	emit(x, TRACE_BEGIN, TRACE_TEXT, x->began_ns, 0, 4,
		(const uint64_t[]){
			prompt, x->began_ps, x->number, x->cached });
	emit(x, TRACE_BEGIN, TRACE_PROMPT, x->began_ns, 0, 1, &left);
}

void request_trace_read(struct tandem_submitted *x)
{
	if (x->traced != TRACED_PROMPT)
		return;
	emit(x, TRACE_END, TRACE_PROMPT, x->read_ns, 0, 0, NULL);
	emit(x, TRACE_BEGIN, TRACE_DECODE, x->read_ns, 0, 0, NULL);
	x->traced = TRACED_DECODE;
}

/* Emit the end of every event that is still open. */
void request_trace_ended(struct tandem_submitted *x)
{
	uint64_t phone_ps;

	if (x->traced == TRACED_QUEUED)
		emit(x, TRACE_END, TRACE_QUEUED, x->ended_ns, 0, 0, NULL);
	if (x->traced == TRACED_PROMPT || x->traced == TRACED_DECODE) {
		phone_ps = session_phone_ps(x->tandem->decoder.session);
		emit(x, TRACE_END,
			x->traced == TRACED_PROMPT ? TRACE_PROMPT
						   : TRACE_DECODE,
			x->ended_ns, 0, 0, NULL);
		emit(x, TRACE_END, TRACE_TEXT, x->ended_ns, 4, 2,
			(const uint64_t[]){
				phone_ps, gen_generated(x->generation) });
	}
	x->traced = TRACED_NOTHING;
}

void request_trace_shared(const struct tandem_submitted *x, uint64_t began_ns,
	uint64_t ended_ns, bool last)
{
	uint64_t pass;

	if (x->traced != TRACED_PROMPT && x->traced != TRACED_DECODE)
		return;
	pass = session_passes(x->tandem->decoder.session);
	trace_emit(session_trace(x->tandem->decoder.session),
		&(const struct trace_event){ .type = TRACE_BEGIN,
			.name = TRACE_SHARED,
			.track = TRACE_ON_TEXTS,
			.lane = x->trace_lane,
			.at = began_ns,
			.n = 2,
			.arg = { x->pass_rows, pass },
			.flow = trace_pass_flow(pass),
			.flow_ends = last });
	emit(x, TRACE_END, TRACE_SHARED, ended_ns, 0, 0, NULL);
}

void request_trace_alone(const struct tandem_submitted *x, enum trace_type type)
{
	const struct session *s = x->tandem->decoder.session;
	const struct generation *g = x->generation;
	uint64_t phone_ps = session_phone_ps(s);
	bool begins = type == TRACE_BEGIN;

	if (session_trace(s))
		trace_emit(session_trace(s),
			&(const struct trace_event){ .type = type,
				.name = TRACE_TEXT,
				.at = clock_ns(),
				.first = begins ? 0 : 4,
				.n = 2,
				.arg = { begins ? gen_prompt_length(g)
						: phone_ps,
					begins ? phone_ps
					       : gen_generated(g) } });
}
