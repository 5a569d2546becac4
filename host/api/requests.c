/*
 * Several texts: tandem_submit, tandem_advance and what they are told by. Where
 * the method allows it they are lanes of shared passes (host/method/lanes.h).
 */
#include "base/clock.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/method/lanes.h"
#include "host/method/prefixes.h"
#include "host/method/samples.h"
#include "host/text/generation.h"
#include "host/text/history.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

unsigned texts_under_way(const struct tandem *t)
{
	unsigned n = 0;

	for (const struct tandem_submitted *x = t->first_text; x; x = x->next)
		n += x->state == TEXT_UNDER_WAY;
	return n;
}

static struct tandem_submitted **place_of(
	struct tandem *t, const struct tandem_submitted *x)
{
	struct tandem_submitted **at = &t->first_text;

	while (*at != x)
		at = &(*at)->next;
	return at;
}

/* ---- as a lane ----------------------------------------------------------- */

static struct tandem_submitted *text_of(struct lane *x)
{
	return (struct tandem_submitted *)((char *)x -
		offsetof(struct tandem_submitted, lane));
}

/* Whether its sequence is SESSION_TEXT: the only one that the session has, or
 * the only one for prompts that samples fork. */
static bool has_session_text(const struct tandem_submitted *x)
{
	const struct decoder *d = &x->tandem->decoder;

	return d->session_opts.sequences == 1 ||
		(x->samples && decoder_texts(d)->texts == 1);
}

/* Another that is under way may hold more of it than what is kept. */
static void look_beside(
	const struct tandem_submitted *x, uint32_t n, struct prefix *best)
{
	const struct tandem *t = x->tandem;
	size_t ignored;
	const int32_t *ours = gen_tokens(x->generation, &ignored);

	for (uint32_t i = 0; i < t->lanes->n; i++) {
		const struct lane *y = t->lanes->lane[i];
		uint32_t same, most;

		if (y->sequence == LANE_NOWHERE)
			continue;
		most = session_length(t->decoder.session, y->sequence);
		same = prefix_common(ours, gen_tokens(y->gen, &ignored),
			most < n ? most : n);
		if (same > best->length)
			*best = (struct prefix){ y->sequence, same };
	}
}

/* Of its first n tokens those that one which is reading will have cached. */
static uint32_t to_come(const struct tandem_submitted *x, uint32_t n)
{
	const struct lanes *l = x->tandem->lanes;
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
 * A sequence with what is cached of its tokens, the last one left out. Where
 * another is just reading half or more of what is left, it is held until that
 * is cached: a pass later, or a few, and none of it is computed twice. Who is
 * waited for is in the pass, and does not wait. Of what is cached no states in
 * the middle are known: a prompt whose states are wanted is computed.
 */
static int find_cached(struct tandem_submitted *x, struct err *e)
{
	struct decoder *d = &x->tandem->decoder;
	struct prefix best = { 0 };
	size_t n;
	const int32_t *token = gen_tokens(x->generation, &n);
	uint32_t last = (uint32_t)n - 1, coming;
	bool states = x->samples && session_tap_layers(d->session);
	int ret;

	if (has_session_text(x)) {
		ret = decoder_begin_text(d, x->generation, e);
		if (states)
			session_truncate(d->session, SESSION_TEXT, 0);
		if (!ret)
			x->lane.sequence = SESSION_TEXT;
		return ret;
	}
	if (d->prefixes && !states) {
		best = prefixes_find(d->prefixes, token, last);
		look_beside(x, last, &best);
		coming = to_come(x, last);
		x->lane.held = x->lane.state == LANE_WAITING &&
			coming > best.length &&
			2 * (coming - best.length) >= last - best.length;
	}
	if (x->lane.held)
		return 0;
	ret = prefix_fork(d->session, &best, &x->lane.sequence, e);
	/* With one request at a time and one kept, there is no sequence but the
	 * kept one: it gives way to any request but one that forks it. */
	if (ret == -ENOSPC)
		ret = session_add(d->session, &x->lane.sequence, e);
	return ret;
}

static void begin(struct tandem_submitted *x)
{
	struct decoder *d = &x->tandem->decoder;

	text_begin(x);
	x->shared = true;
	x->began_ps = session_phone_ps(d->session);
	x->cached = session_length(d->session, x->lane.sequence);
	request_trace_begun(x);
}

static int enter(struct lane *lane, struct err *e)
{
	struct tandem_submitted *x = text_of(lane);
	int ret;

	if (lane->sequence != LANE_NOWHERE)
		return 0;
	ret = find_cached(x, e);
	if (!ret && !lane->held && !x->began_ns)
		begin(x);
	return ret;
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
	struct tandem_submitted *x = text_of(lane);

	note_read(x);
	if (x->samples) {
		samples_read_all(x->samples, logits, lane->lanes->n_vocab);
		lane->state = LANE_KEPT;
		lane->held = true;
	} else if (!gen_done(x->generation)) {
		method_next(x->tandem->decoder.session, x->generation, logits);
	}
}

/* What is cached of one that ended well stays, where anything does. */
static void give_back(struct tandem_submitted *x)
{
	struct decoder *d = &x->tandem->decoder;
	uint32_t text = x->lane.sequence;
	size_t n;

	if (has_session_text(x) && x->began_ns) {
		if (text == LANE_NOWHERE) /* it was forgotten */
			session_add(d->session, &text, NULL);
		else if (!x->state)
			decoder_keep_text(d, x->generation);
		assert(text == SESSION_TEXT);
		session_truncate(d->session, SESSION_TEXT, 0);
		x->lane.sequence = LANE_NOWHERE;
	} else if (d->prefixes && !x->state && text != LANE_NOWHERE) {
		prefixes_keep(d->prefixes, gen_tokens(x->generation, &n), text);
		x->lane.sequence = LANE_NOWHERE;
	}
}

/* The lane's end is the text's. */
static void end_lane(struct tandem_submitted *x, int ret)
{
	if (x->samples)
		samples_rest(x->samples);
	text_end(x, ret);
	if (!x->state)
		x->state = tandem_status_of(decoder_keep(
			&x->tandem->decoder, x->generation, &x->err));
	give_back(x);
	lane_end(&x->lane,
		x->state == TANDEM_OK                 ? LANE_ENDED
			: x->state == TANDEM_CANCELED ? LANE_CUT
						      : LANE_FAILED);
	text_report_samples(x);
}

static void computed(struct lane *lane, uint32_t first, uint32_t rows,
	uint64_t began_ns, bool last)
{
	struct tandem_submitted *x = text_of(lane), *told = NULL;
	struct session *session = lane->lanes->session;
	uint64_t now = clock_ns();

	if (x->samples && !samples_are_read(x->samples))
		samples_read(x->samples, session,
			session_length(session, lane->sequence), first, rows);
	x->passes += !x->pass_rows;
	x->pass_rows += rows;
	for (x = x->tandem->first_text; last && x; x = x->next) {
		if (!x->pass_rows)
			continue;
		if (told)
			request_trace_shared(told, began_ns, now, false);
		told = x;
	}
	if (told)
		request_trace_shared(told, began_ns, now, true);
}

static void passed(struct lane *lane)
{
	struct tandem_submitted *x = text_of(lane);

	if (lane->denoising)
		note_read(x);
	if ((!x->samples && gen_done(x->generation)) || x->canceled)
		end_lane(x, 0);
}

static void no_room(struct lane *lane)
{
	gen_no_room(text_of(lane)->generation);
	end_lane(text_of(lane), 0);
}

static void spoilt(struct lane *lane, const struct err *e)
{
	text_of(lane)->err = *e;
	end_lane(text_of(lane), e->code);
}

static const struct lane_owner owner = {
	.enter = enter,
	.draw = draw,
	.computed = computed,
	.passed = passed,
	.no_room = no_room,
	.spoilt = spoilt,
};

/* ---- submitting ---------------------------------------------------------- */

static int open_lanes(struct tandem *t, struct err *e)
{
	struct lanes *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return err_set(e, ENOMEM, "no memory for texts");
	*l = (struct lanes){ .session = t->decoder.session,
		.env = &t->decoder.env,
		.rides = true,
		.tree_rows = WIRE_MAX_ROWS,
		.lane_rows = t->decoder.session_opts.decode_rows };
	ret = lanes_open(l, decoder_lanes(&t->decoder), e);
	if (ret) {
		lanes_close(l);
		free(l);
	} else {
		t->lanes = l;
	}
	return ret;
}

void texts_close(struct tandem *t)
{
	if (t->lanes)
		lanes_close(t->lanes);
	free(t->lanes);
	t->lanes = NULL;
}

/* One of which no token is wanted has ended. One that has samples is a lane
 * when its turn has come: places in passes are for samples. */
static int add_lane(struct tandem_submitted *x, struct err *e)
{
	struct tandem *t = x->tandem;
	int ret = 0;

	if (!decoder_shares(&t->decoder))
		return 0;
	if (!t->lanes)
		ret = open_lanes(t, e);
	x->lane = (struct lane){
		.owner = &owner, .gen = x->generation, .sequence = LANE_NOWHERE
	};
	if (ret)
		return ret;
	if (decoder_has_samples(&t->decoder))
		return text_open_samples(x, e);
	ret = lanes_add(t->lanes, &x->lane, e);
	if (!ret && gen_done(x->generation))
		end_lane(x, 0);
	return ret;
}

int tandem_submit(struct tandem *t, const struct tandem_request *request,
	struct tandem_submitted **out)
{
	struct tandem_submitted *x = NULL;
	int ret = t->dead;

	*out = NULL;
	if (!ret)
		ret = tandem_settle(t, text_open(&x, t, request, true));
	if (!ret)
		ret = tandem_status_of(add_lane(x, &t->err));
	if (ret) {
		text_close(x);
		return ret;
	}
	request_trace_submitted(x);
	*place_of(t, NULL) = *out = x;
	return 0;
}

/* ---- a pass -------------------------------------------------------------- */

static void end(struct tandem_submitted *x, int ret)
{
	if (x->lane.lanes)
		end_lane(x, ret);
	else
		text_end(x, ret);
}

static struct tandem_submitted *first_under_way(const struct tandem *t)
{
	struct tandem_submitted *x = t->first_text;

	while (x && x->state != TEXT_UNDER_WAY)
		x = x->next;
	return x;
}

static void end_canceled(struct tandem *t)
{
	for (struct tandem_submitted *x = t->first_text; x; x = x->next)
		if (x->canceled && x->state == TEXT_UNDER_WAY)
			end(x, 0);
}

static void end_all(struct tandem *t, int ret)
{
	for (struct tandem_submitted *x = t->first_text; x; x = x->next) {
		if (x->state != TEXT_UNDER_WAY)
			continue;
		x->err = t->err;
		end(x, ret);
	}
}

/* What it ends with concerns others only where the device was lost, or all
 * was to stop. */
static int write_one(struct tandem *t, struct tandem_submitted *x)
{
	int ret = text_run(x);

	if (ret != TANDEM_LOST && (ret != TANDEM_CANCELED || x->canceled))
		return 0;
	t->err = x->err;
	if (ret == TANDEM_LOST)
		end_all(t, -ERR_DEVICE_LOST);
	return ret;
}

static uint64_t energy_pj(const struct decoder *d)
{
	struct session_stats s = { 0 };

	if (d->session_opts.soc)
		session_stats(d->session, &s);
	return s.price.energy_pj;
}

/* What energy the pass took, to each by its rows. */
static void share_energy(const struct tandem *t, uint64_t pj)
{
	for (struct tandem_submitted *x = t->first_text; x; x = x->next)
		if (x->pass_rows)
			x->energy_pj += (uint64_t)((double)pj * x->pass_rows /
				t->lanes->n_rows);
}

/* Requests that have samples begin in their order; who waited for what another
 * read looks again. */
static int begin_pass(struct tandem *t)
{
	uint32_t turns = decoder_texts(&t->decoder)->texts;
	int ret = 0;

	for (struct tandem_submitted *x = t->first_text; x && !ret;
		x = x->next) {
		x->pass_rows = 0;
		if (x->lane.state == LANE_WAITING)
			x->lane.held = false;
		if (x->state != TEXT_UNDER_WAY || !x->samples || !turns)
			continue;
		turns--;
		if (!x->lane.lanes)
			ret = lanes_add(t->lanes, &x->lane, &t->err);
	}
	return ret;
}

/* Of a request whose prompt is read: the next steps of its method, where its
 * samples rest. What concerns all is returned. */
static int step_samples(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	int ret = 0;

	if (!samples_have_begun(x->samples))
		ret = samples_begin(x->samples, t->lanes, &x->lane, &x->err);
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

static int write_all(struct tandem *t)
{
	struct decoder *d = &t->decoder;
	uint64_t before = energy_pj(d);
	int ret = d->history ? history_refresh(d->history, &t->err) : 0;

	if (!ret)
		ret = begin_pass(t);
	if (!ret)
		ret = lanes_pass(t->lanes, &t->err);
	if (!ret)
		share_energy(t, energy_pj(d) - before);
	for (struct tandem_submitted *x = t->first_text; x && !ret;
		x = x->next) {
		if (x->state != TEXT_UNDER_WAY || !x->samples ||
			!samples_are_read(x->samples))
			continue;
		before = energy_pj(d);
		ret = step_samples(x);
		x->energy_pj += energy_pj(d) - before;
	}
	if (ret && ret != -ECANCELED)
		end_all(t, ret);
	return tandem_status_of(ret);
}

static int advance(struct tandem *t)
{
	struct tandem_submitted *x = first_under_way(t);

	if (!x)
		return 0;
	return t->lanes ? write_all(t) : write_one(t, x);
}

int tandem_advance(struct tandem *t, unsigned *texts)
{
	int ret = t->dead;

	if (t->advancing)
		return tandem_status_of(err_set(&t->err, EINVAL,
			"tandem_advance must not be called from a callback"));
	t->advancing = true;
	end_canceled(t);
	if (!ret)
		ret = tandem_settle(t, advance(t));
	t->advancing = false;
	/* Who has nothing to do may be killed before it has. */
	if (t->decoder.session && !texts_under_way(t))
		session_flush_trace(t->decoder.session);
	if (texts)
		*texts = texts_under_way(t);
	return ret;
}

int tandem_wait(struct tandem *t, const struct tandem_submitted *x)
{
	int ret = 0;

	while (!ret && x->state == TEXT_UNDER_WAY)
		ret = tandem_advance(t, NULL);
	return x->state == TEXT_UNDER_WAY ? ret : x->state;
}

/* ---- one of them --------------------------------------------------------- */

int tandem_request_state(
	const struct tandem_submitted *x, struct tandem_result *result)
{
	if (result)
		text_result(x, result);
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
	if (x->state == TEXT_UNDER_WAY) {
		x->canceled = true;
		end(x, 0);
	}
	if (x->lane.lanes)
		lanes_drop(&x->lane);
	*place_of(x->tandem, x) = x->next;
	text_close(x);
}
