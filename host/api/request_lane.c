/* A request as a lane of the scheduler (host/scheduler/scheduler.h). A lane is
 * a sequence that is being decoded. This file has the callbacks that find the
 * cached part of the prompt, draw tokens, and end the request. */
#include "base/clock.h"
#include "base/err.h"
#include "host/api/embedding.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/scheduler/scheduler.h"
#include "host/scheduler/prefixes.h"
#include "host/scheduler/samples.h"
#include "host/text/generation.h"
#include "host/text/history.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

static struct tandem_submitted *request_of(struct lane *x)
{
	return (struct tandem_submitted *)((char *)x -
		offsetof(struct tandem_submitted, lane));
}

bool requests_run_in_turn(const struct tandem *t)
{
	return decoder_texts(&t->decoder) == 1;
}

/* If the sequence of a running request has cached more of the first n tokens of
 * x's prompt than *best, set *best to that sequence. */
static void find_in_lanes(
	const struct tandem_submitted *x, uint32_t n, struct prefix *best)
{
	const struct tandem *t = x->tandem;
	size_t ignored;
	const int32_t *ours = gen_tokens(x->generation, &ignored);

	for (uint32_t i = 0; i < t->scheduler->n; i++) {
		const struct lane *y = t->scheduler->lane[i];
		uint32_t same, most;

		if (y->sequence == LANE_NO_SEQUENCE)
			continue;
		most = session_length(t->decoder.session, y->sequence);
		same = prefix_common(ours, gen_tokens(y->gen, &ignored),
			most < n ? most : n);
		if (same > best->length)
			*best = (struct prefix){ y->sequence, same };
	}
}

/*
 * Other lanes are reading their own prompts, which may begin like x's prompt.
 * For each of these lanes, count how many of the first n tokens of x's prompt
 * the lane will have cached at the end of its own prompt. Returns the largest
 * of these numbers.
 */
static uint32_t cached_soon(const struct tandem_submitted *x, uint32_t n)
{
	const struct scheduler *l = x->tandem->scheduler;
	uint32_t most = 0;
	size_t n_theirs, ignored;
	const int32_t *ours = gen_tokens(x->generation, &ignored);

	for (uint32_t i = 0; i < l->n_in; i++) {
		const int32_t *theirs = gen_tokens(l->in[i]->gen, &n_theirs);
		uint32_t same = prefix_common(
			ours, theirs, n_theirs < n ? (uint32_t)n_theirs : n);

		if (l->unread[i] && same > most)
			most = same;
	}
	return most;
}

/*
 * Give x's lane a sequence with the cached part of its prompt, except the last
 * token. If another lane is reading at least half of the tokens that are not
 * cached yet, x's lane is held (it takes no part in passes) until those tokens
 * are cached. Otherwise both lanes would compute those tokens. The other lane
 * has rows in the next pass, so the delay is only a few passes. A request that
 * needs the hidden states of its whole prompt (for a reward head or for an
 * embedding) reuses no cached tokens, because the cache has no hidden states.
 */
static int find_cached(struct tandem_submitted *x, struct err *e)
{
	struct decoder *d = &x->tandem->decoder;
	struct prefix best = { 0 };
	size_t n;
	const int32_t *token = gen_tokens(x->generation, &n);
	uint32_t last = (uint32_t)n - 1, coming;
	bool states =
		x->embedding || (x->samples && session_tap_layers(d->session));
	int ret;

	if (requests_run_in_turn(x->tandem)) {
		ret = decoder_begin_text(d, x->generation, e);
		if (states)
			session_truncate(d->session, SESSION_TEXT, 0);
		return ret;
	}
	if (d->prefixes && !states) {
		best = prefixes_find(d->prefixes, token, last);
		find_in_lanes(x, last, &best);
		coming = cached_soon(x, last);
		x->lane.held = x->lane.state == LANE_WAITING &&
			coming > best.length &&
			2 * (coming - best.length) >= last - best.length;
	}
	if (x->lane.held)
		return 0;
	return prefix_fork(d->session, &best, &x->lane.sequence, e);
}

static int enter(struct lane *lane, struct err *e)
{
	struct tandem_submitted *x = request_of(lane);
	struct decoder *d = &x->tandem->decoder;
	struct session *s = d->session;
	int ret;

	if (lane->sequence != LANE_NO_SEQUENCE && x->began_ns)
		return 0;
	ret = find_cached(x, e);
	if (ret || lane->held || x->began_ns)
		return ret;
	request_begin(x);
	x->shared = !requests_run_in_turn(x->tandem);
	x->began_ps = session_phone_ps(s);
	x->cached = session_length(s, lane->sequence);
	request_trace_begun(x);
	if (!x->shared)
		request_trace_alone(x, TRACE_BEGIN);
	d->kept = false;
	return d->history ? history_refresh(d->history, e) : 0;
}

static void note_read(struct tandem_submitted *x)
{
	if (x->read_ns)
		return;
	x->read_ns = clock_ns();
	request_trace_read(x);
}

static void draw(struct lane *lane, const float *logits)
{
	struct tandem_submitted *x = request_of(lane);

	note_read(x);
	if (x->samples) {
		samples_read_all(x->samples, logits, lane->scheduler->n_vocab);
		lane->state = LANE_KEPT;
		lane->held = true;
	} else if (!gen_done(x->generation)) {
		method_next(x->tandem->decoder.session, x->generation, logits);
	}
}

/* End a request that has a lane, and remove the lane. */
static void end_lane(struct tandem_submitted *x, int ret)
{
	struct decoder *d = &x->tandem->decoder;
	uint32_t text;
	bool keep;
	size_t n;

	if (x->samples && ret == -ECANCELED)
		samples_stop(x->samples);
	if (x->samples)
		samples_detach(x->samples);
	if (x->began_ns && !x->shared)
		request_trace_alone(x, TRACE_END);
	request_end(x, ret);
	if (!x->state && !x->measured)
		x->state = tandem_status_of(
			decoder_keep(d, x->generation, &x->err));

	/*
	 * With the option keep=N (keep the caches of N ended requests), keep
	 * the keys and values of a request that succeeded. Do not keep those of
	 * a request for an embedding, because no later prompt continues its
	 * text.
	 */
	text = x->lane.sequence;
	keep = !x->state && !x->embedding;
	if (requests_run_in_turn(x->tandem)) {
		/* The scheduler may have dropped the sequence because other
		 * lanes needed its slots. */
		if (text == LANE_NO_SEQUENCE)
			session_add(d->session, &text, NULL);
		else if (keep)
			decoder_keep_text(d, x->generation);
		assert(text == SESSION_TEXT);
		session_truncate(d->session, SESSION_TEXT, 0);
		x->lane.sequence = LANE_NO_SEQUENCE;
	} else if (d->prefixes && keep && text != LANE_NO_SEQUENCE) {
		prefixes_keep(d->prefixes, gen_tokens(x->generation, &n), text);
		x->lane.sequence = LANE_NO_SEQUENCE;
	}
	lane_end(&x->lane,
		x->state == TANDEM_OK                 ? LANE_ENDED
			: x->state == TANDEM_CANCELED ? LANE_CUT
						      : LANE_FAILED);
	request_report_samples(x);
}

void request_lane_end(struct tandem_submitted *x, int ret)
{
	if (x->lane.scheduler)
		end_lane(x, ret);
	else
		request_end(x, ret);
}

static void computed(struct lane *lane, uint32_t first, uint32_t rows,
	uint64_t began_ns, bool last)
{
	struct tandem_submitted *x = request_of(lane), *previous = NULL;
	struct session *session = lane->scheduler->session;
	uint64_t now = clock_ns();

	if (x->embedding)
		embedding_add(x->embedding, session,
			session_length(session, lane->sequence), first, rows);
	if (x->samples && !samples_are_read(x->samples))
		samples_read(x->samples, session,
			session_length(session, lane->sequence), first, rows);
	x->passes += !x->pass_rows;
	x->pass_rows += rows;
	if (!last)
		return;
	/* All rows of the pass have been counted: write the pass to the trace
	 * of each request that had rows in it. */
	for (x = x->tandem->first_request; x; x = x->next) {
		if (!x->pass_rows)
			continue;
		if (previous)
			request_trace_shared(previous, began_ns, now, false);
		previous = x;
	}
	if (previous)
		request_trace_shared(previous, began_ns, now, true);
}

static void passed(struct lane *lane)
{
	struct tandem_submitted *x = request_of(lane);
	bool over = x->embedding ? embedding_is_read(x->embedding)
				 : !x->samples && gen_done(x->generation);

	if (lane->denoising)
		note_read(x);
	if (x->canceled || (over && !x->embedding))
		end_lane(x, 0);
	else if (over)
		end_lane(x, request_report_embedding(x, &x->err));
}

static void no_room(struct lane *lane)
{
	gen_no_room(request_of(lane)->generation);
	end_lane(request_of(lane), 0);
}

static void fail(struct lane *lane, const struct err *e)
{
	request_of(lane)->err = *e;
	end_lane(request_of(lane), e->code);
}

const struct lane_ops request_lane_ops = {
	.enter = enter,
	.draw = draw,
	.computed = computed,
	.passed = passed,
	.no_room = no_room,
	.fail = fail,
};
