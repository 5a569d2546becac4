/*
 * What a trace is told of texts that were submitted: a lane each, on which it
 * waits, reads its prompt and writes, with the rows that it had of each pass.
 * One that is written alone has no more than the wait there: the rest is on the
 * thread that writes it.
 */
#include "base/clock.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/text/generation.h"
#include "host/trace/trace.h"

static struct trace *trace_of(const struct tandem_submitted *x)
{
	return session_trace(x->tandem->decoder.session);
}

/* Of an event, `n` numbers from the `first` on. */
static void tell(const struct tandem_submitted *x, enum trace_type type,
	enum trace_name name, uint64_t at, uint32_t first, uint32_t n,
	const uint64_t *arg)
{
	struct trace_event v = { .type = type,
		.name = name,
		.track = TRACE_ON_TEXTS,
		.lane = x->told_lane,
		.at = at,
		.first = first,
		.n = n };

	for (uint32_t i = 0; i < n; i++)
		v.arg[i] = arg[i];
	trace_emit(trace_of(x), &v);
}

static void tell_end(
	const struct tandem_submitted *x, enum trace_name name, uint64_t at)
{
	tell(x, TRACE_END, name, at, 0, 0, NULL);
}

static bool lane_is_taken(const struct tandem *t, uint32_t lane)
{
	for (const struct tandem_submitted *x = t->first_text; x; x = x->next)
		if (x->told != TRACED_NOTHING && x->told_lane == lane)
			return true;
	return false;
}

void request_trace_submitted(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	uint32_t lane = 0;

	x->number = ++t->submitted;
	if (!trace_of(x) || x->state != TEXT_UNDER_WAY)
		return;
	while (lane < TRACE_LANES && lane_is_taken(t, lane))
		lane++;
	if (lane == TRACE_LANES)
		return;
	x->told_lane = lane;
	x->told = TRACED_QUEUED;
	tell(x, TRACE_BEGIN, TRACE_QUEUED, x->submitted_ns, 0, 1, &x->number);
}

void request_trace_begun(struct tandem_submitted *x)
{
	uint64_t prompt = gen_prompt_length(x->generation), left;

	if (x->told != TRACED_QUEUED)
		return;
	tell_end(x, TRACE_QUEUED, x->began_ns);
	x->told = x->shared ? TRACED_PROMPT : TRACED_NOTHING;
	if (!x->shared)
		return;
	left = prompt - x->cached;
	tell(x, TRACE_BEGIN, TRACE_TEXT, x->began_ns, 0, 4,
		(const uint64_t[]){
			prompt, x->began_ps, x->number, x->cached });
	tell(x, TRACE_BEGIN, TRACE_PROMPT, x->began_ns, 0, 1, &left);
}

void request_trace_read(struct tandem_submitted *x)
{
	if (x->told != TRACED_PROMPT)
		return;
	tell_end(x, TRACE_PROMPT, x->read_ns);
	tell(x, TRACE_BEGIN, TRACE_DECODE, x->read_ns, 0, 0, NULL);
	x->told = TRACED_DECODE;
}

/* All that has begun of it ends. */
void request_trace_ended(struct tandem_submitted *x)
{
	uint64_t phone_ps;

	if (x->told == TRACED_QUEUED)
		tell_end(x, TRACE_QUEUED, x->ended_ns);
	if (x->told == TRACED_PROMPT || x->told == TRACED_DECODE) {
		phone_ps = session_phone_ps(x->tandem->decoder.session);
		tell_end(x,
			x->told == TRACED_PROMPT ? TRACE_PROMPT : TRACE_DECODE,
			x->ended_ns);
		tell(x, TRACE_END, TRACE_TEXT, x->ended_ns, 4, 2,
			(const uint64_t[]){
				phone_ps, gen_generated(x->generation) });
	}
	x->told = TRACED_NOTHING;
}

void request_trace_shared(const struct tandem_submitted *x, uint64_t began_ns,
	uint64_t ended_ns, bool last)
{
	uint64_t pass;

	if (x->told != TRACED_PROMPT && x->told != TRACED_DECODE)
		return;
	pass = session_passes(x->tandem->decoder.session);
	trace_emit(trace_of(x),
		&(const struct trace_event){ .type = TRACE_BEGIN,
			.name = TRACE_SHARED,
			.track = TRACE_ON_TEXTS,
			.lane = x->told_lane,
			.at = began_ns,
			.n = 2,
			.arg = { x->pass_rows, pass },
			.flow = trace_pass_flow(pass),
			.flow_ends = last });
	tell_end(x, TRACE_SHARED, ended_ns);
}

void request_trace_alone(const struct tandem_submitted *x, enum trace_type type)
{
	const struct session *s = x->tandem->decoder.session;
	const struct generation *g = x->generation;
	uint64_t phone_ps = session_phone_ps(s);
	bool begins = type == TRACE_BEGIN;

	if (trace_of(x))
		trace_emit(trace_of(x),
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
