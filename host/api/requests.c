/*
 * Running requests: tandem_submit, tandem_advance and the calls about a single
 * request. Each request is a lane of a scheduler (host/scheduler/scheduler.h),
 * and the functions below are the callbacks of the lanes: they find the cached
 * part of a prompt, draw tokens, and end requests. With texts=1, or if requests
 * of the method cannot share passes, requests run one after another: each
 * begins when the request before it has ended, and reads its prompt in passes
 * of its own.
 */
#include "base/clock.h"
#include "base/err.h"
#include "host/api/embedding.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/scheduler/scheduler.h"
#include "host/scheduler/prefixes.h"
#include "host/scheduler/samples.h"
#include "host/npu/npu.h"
#include "host/text/generation.h"
#include "host/text/history.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Number of requests that have not ended. */
static unsigned requests_unfinished(const struct tandem *t)
{
	unsigned n = 0;

	for (const struct tandem_submitted *x = t->first_request; x;
		x = x->next)
		n += x->state == REQUEST_UNFINISHED;
	return n;
}

static struct tandem_submitted **place_of(
	struct tandem *t, const struct tandem_submitted *x)
{
	struct tandem_submitted **at = &t->first_request;

	while (*at != x)
		at = &(*at)->next;
	return at;
}

/* ---- requests as lanes --------------------------------------------------- */

static struct tandem_submitted *request_of(struct lane *x)
{
	return (struct tandem_submitted *)((char *)x -
		offsetof(struct tandem_submitted, lane));
}

/* Whether requests run one after another. Then each of them decodes in
 * SESSION_TEXT. */
static bool run_in_turn(const struct tandem *t)
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

/* How many of the first n tokens of x's prompt will be cached as soon as a lane
 * that is reading its own prompt has read it (maximum over these lanes). */
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
 * Give the lane a sequence with the cached part of its prompt, except the last
 * token. If another lane is reading at least half of the tokens that are not
 * cached yet, this lane is held (it takes no part in passes) until those tokens
 * are cached, so that they are not computed twice. The other lane has rows in
 * the next pass, so the delay is only a few passes. A request with a reward
 * head, or for an embedding, reuses no cached tokens, because it needs the
 * hidden states of the whole prompt; the cache has none.
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

	if (run_in_turn(x->tandem)) {
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
	ret = prefix_fork(d->session, &best, &x->lane.sequence, e);
	/*
	 * With texts=1 and keep=1 the session has no free sequence if one holds
	 * kept tokens, so a fork of the kept tokens fails. Then begin with an
	 * empty sequence: for this, session_add may drop the kept tokens.
	 */
	if (ret == -ENOSPC)
		ret = session_add(d->session, &x->lane.sequence, e);
	return ret;
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
	x->shared = !run_in_turn(x->tandem);
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
	 * With the option keep=N, keep the keys and values of a request that
	 * succeeded, except after a request for an embedding, because no later
	 * prompt continues its text.
	 */
	text = x->lane.sequence;
	keep = !x->state && !x->embedding;
	if (run_in_turn(x->tandem)) {
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

/* End an unfinished request. */
static void end(struct tandem_submitted *x, int ret)
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

static const struct lane_ops ops = {
	.enter = enter,
	.draw = draw,
	.computed = computed,
	.passed = passed,
	.no_room = no_room,
	.fail = fail,
};

/* ---- submitting ---------------------------------------------------------- */

void requests_close(struct tandem *t)
{
	if (t->scheduler)
		scheduler_close(t->scheduler);
	free(t->scheduler);
	t->scheduler = NULL;
}

/* Open the scheduler of the handle. */
static int open_scheduler(struct tandem *t, struct err *e)
{
	struct decoder *d = &t->decoder;
	const struct samples_options *o =
		opt_values_of(&d->options, &samples_table);
	uint32_t rows = d->session_opts.decode_rows, width = decoder_lanes(d);
	bool mixed = !run_in_turn(t);
	int ret;

	if (!mixed && d->method->many) {
		rows = samples_tree_rows(&d->env);
		width = o->parallel;
	} else if (!mixed) {
		rows = d->method->decode_rows(&d->env);
	}
	t->scheduler = calloc(1, sizeof(*t->scheduler));
	if (!t->scheduler)
		return err_set(e, ENOMEM, "no memory for requests");
	*t->scheduler = (struct scheduler){ .session = d->session,
		.env = &d->env,
		.mixed_prefill = mixed,
		.tree_rows = mixed ? WIRE_MAX_ROWS : rows,
		.lane_rows = rows };
	ret = scheduler_open(t->scheduler, width, e);
	if (ret)
		requests_close(t);
	return ret;
}

/*
 * Append a request to the list of the handle. If requests share passes, its
 * lane waits in the scheduler from now on, except for a request with samples;
 * run_pass adds the other lanes when it admits the requests. A request for an
 * embedding only reads its prompt and draws no token, so `closing` is set in
 * its lane.
 */
static int queue(struct tandem_submitted *x, struct err *e)
{
	struct tandem *t = x->tandem;
	struct decoder *d = &t->decoder;
	bool in_turn = run_in_turn(t);
	int ret = t->scheduler ? 0 : open_scheduler(t, e);

	x->lane = (struct lane){ .ops = &ops,
		.gen = x->generation,
		.sequence = LANE_NO_SEQUENCE,
		.closing = x->embedding };
	if (!ret && !x->embedding &&
		(in_turn ? d->method->many != NULL : decoder_has_samples(d)))
		ret = samples_open(&x->samples, &d->env, x->generation, e);
	if (!ret && !in_turn && !x->samples)
		ret = scheduler_add(t->scheduler, &x->lane, e);
	if (ret)
		return ret;
	*place_of(t, NULL) = x;
	/* Requests that share passes read no prompt after which no token is
	 * drawn. Diffusion methods read no prompt at first. */
	if (gen_done(x->generation) && !x->embedding && !x->samples &&
		(!in_turn || d->method->denoise))
		end(x, 0);
	return 0;
}

int tandem_submit(struct tandem *t, const struct tandem_request *request,
	struct tandem_submitted **out)
{
	struct tandem_submitted *x = NULL;
	int ret = t->dead;

	*out = NULL;
	if (!ret)
		ret = tandem_settle(t, request_open(&x, t, request, true));
	if (!ret)
		ret = tandem_status_of(queue(x, &t->err));
	if (ret) {
		request_close(x);
		return ret;
	}
	request_trace_submitted(x);
	*out = x;
	return 0;
}

/* ---- a pass -------------------------------------------------------------- */

static void end_all(struct tandem *t, int ret)
{
	for (struct tandem_submitted *x = t->first_request; x; x = x->next) {
		if (x->state != REQUEST_UNFINISHED)
			continue;
		x->err = t->err;
		end(x, ret);
	}
}

/* Energy (in picojoules) of all passes since the session was opened; 0 without
 * a simulated phone. */
static uint64_t energy_pj(const struct decoder *d)
{
	struct session_stats s = { 0 };

	if (d->session_opts.soc)
		session_stats(d->session, &s);
	return s.price.energy_pj;
}

/*
 * For a request with samples whose prompt was read: between two passes, let the
 * method add, fork, cut or choose samples (samples_next). Returns only errors
 * that concern all requests.
 */
static int step_samples(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	int ret = 0;

	if (!samples_have_begun(x->samples))
		ret = samples_begin(
			x->samples, t->scheduler, &x->lane, &x->err);
	if (!ret && !x->canceled)
		ret = samples_next(x->samples, &x->err);
	if (ret == -ERR_DEVICE_LOST ||
		(ret == -ECANCELED &&
			__atomic_load_n(&t->canceled, __ATOMIC_RELAXED))) {
		t->err = x->err;
		return ret;
	}
	if (ret || x->canceled)
		end_lane(x, ret == MANY_DONE ? 0 : ret);
	return 0;
}

/*
 * Before a pass: admit requests in the order of submission. If requests run in
 * turn, one request is admitted at a time, otherwise up to texts=N requests
 * with samples; other requests were admitted by `queue`. Ends the waiting of
 * lanes that find_cached had put on hold; `enter` calls find_cached again,
 * which may put them on hold again.
 */
static int admit(struct tandem *t, struct err *e)
{
	struct decoder *d = &t->decoder;
	const struct texts_options *o =
		opt_values_of(&d->options, &texts_table);
	bool in_turn = run_in_turn(t);
	uint32_t turns = in_turn ? 1 : o->texts;
	int ret = 0;

	for (struct tandem_submitted *x = t->first_request; x && !ret;
		x = x->next) {
		x->pass_rows = 0;
		if (x->lane.state == LANE_WAITING)
			x->lane.held = false;
		if (x->state != REQUEST_UNFINISHED || !turns ||
			(!in_turn && !x->samples))
			continue;
		turns--;
		if (x->lane.scheduler)
			continue;
		if (!x->measured && !x->embedding)
			ret = decoder_prepare_oracle(d, x->generation, e);
		if (!ret)
			ret = scheduler_add(t->scheduler, &x->lane, e);
		if (!ret && in_turn)
			x->lane.sequence = SESSION_TEXT;
	}
	return ret;
}

/* The running requests fail. If they run in turn, this is the first unfinished
 * one, and the other requests continue. Returns the status of tandem_advance.
 */
static int fail_pass(struct tandem *t, int ret)
{
	struct tandem_submitted *x = t->first_request;

	if (!run_in_turn(t) || ret == -ERR_DEVICE_LOST) {
		end_all(t, ret);
		return tandem_status_of(ret);
	}
	while (x->state != REQUEST_UNFINISHED)
		x = x->next;
	x->err = t->err;
	end(x, ret);
	return TANDEM_OK;
}

static int run_pass(struct tandem *t)
{
	struct decoder *d = &t->decoder;
	uint64_t before = energy_pj(d), spent;
	int ret = admit(t, &t->err);

	if (!ret)
		ret = scheduler_step(t->scheduler, &t->err);
	spent = energy_pj(d) - before;
	for (struct tandem_submitted *x = t->first_request; x && !ret;
		x = x->next)
		/* charge the pass's energy to its requests, in proportion to
		 * their rows */
		if (x->pass_rows && x->shared)
			x->energy_pj += (uint64_t)((double)spent *
				x->pass_rows / t->scheduler->n_rows);
	for (struct tandem_submitted *x = t->first_request; x && !ret;
		x = x->next) {
		if (x->state != REQUEST_UNFINISHED || !x->samples ||
			!samples_are_read(x->samples))
			continue;
		if (x->pass_rows && samples_have_begun(x->samples))
			request_report_progress(x);
		before = energy_pj(d);
		ret = step_samples(x);
		x->energy_pj += energy_pj(d) - before;
	}
	if (ret == -ECANCELED)
		return TANDEM_CANCELED;
	return ret ? fail_pass(t, ret) : 0;
}

int tandem_advance(struct tandem *t, unsigned *requests)
{
	struct tandem_submitted *x;
	int ret = t->dead;

	if (t->advancing)
		return tandem_status_of(err_set(&t->err, EINVAL,
			"tandem_advance must not be called from a callback"));
	t->advancing = true;
	for (x = t->first_request; x; x = x->next)
		if (x->canceled && x->state == REQUEST_UNFINISHED)
			end(x, 0);
	for (x = t->first_request; x && x->state != REQUEST_UNFINISHED;)
		x = x->next;
	if (!ret && x)
		ret = tandem_settle(t, run_pass(t));
	t->advancing = false;
	/* No request is left: write the trace to its file now, because an idle
	 * process may be killed at any time. */
	if (t->decoder.session && !requests_unfinished(t))
		npu_flush_trace(session_npu(t->decoder.session));
	if (requests)
		*requests = requests_unfinished(t);
	return ret;
}

int tandem_wait(struct tandem *t, const struct tandem_submitted *x)
{
	int ret = 0;

	while (!ret && x->state == REQUEST_UNFINISHED)
		ret = tandem_advance(t, NULL);
	return x->state == REQUEST_UNFINISHED ? ret : x->state;
}

/* Take a request from the list and from the scheduler. */
static void leave(struct tandem_submitted *x)
{
	if (x->lane.scheduler)
		scheduler_drop(&x->lane);
	x->lane.scheduler = NULL;
	*place_of(x->tandem, x) = x->next;
	x->next = NULL;
}

int request_run(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	int ret = tandem_settle(t, tandem_status_of(queue(x, &t->err)));

	if (ret)
		return ret;
	ret = tandem_wait(t, x);
	if (x->state == REQUEST_UNFINISHED) { /* tandem_cancel was called */
		x->err = t->err;
		end(x, -ECANCELED);
	}
	leave(x);
	if (ret)
		t->err = x->err;
	/* Settled once more: a callback of `end` may have canceled again. */
	return tandem_settle(t, ret);
}

int tandem_generate(struct tandem *t, const struct tandem_request *request,
	struct tandem_result *result)
{
	int ret = t->dead;

	request_close(t->last);
	t->last = NULL;
	if (!ret && requests_unfinished(t))
		ret = tandem_status_of(err_set(&t->err, EINVAL,
			"submitted requests are still running; finish them "
			"with tandem_advance, or add this one with "
			"tandem_submit"));
	if (!ret)
		ret = tandem_settle(
			t, request_open(&t->last, t, request, false));
	if (!ret)
		ret = request_run(t->last);
	if (result)
		request_result(t->last, result);
	return ret;
}

/* ---- one request --------------------------------------------------------- */

int tandem_request_state(
	const struct tandem_submitted *x, struct tandem_result *result)
{
	if (result)
		request_result(x, result);
	return x->state;
}

const char *tandem_request_error(const struct tandem_submitted *x)
{
	return x->err.text;
}

void tandem_request_cancel(struct tandem_submitted *x)
{
	x->canceled = true;
}

void tandem_request_close(struct tandem_submitted *x)
{
	if (!x)
		return;
	if (x->state == REQUEST_UNFINISHED) {
		x->canceled = true;
		end(x, 0);
	}
	leave(x);
	request_close(x);
}
