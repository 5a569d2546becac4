/*
 * Chooses the lanes of a pass; a lane is a request or a sample that is being
 * decoded. Lanes begin in the order of the list scheduler->lane[]. When no
 * cache slots are left, the lanes at the end of the list wait, so that the
 * lanes at the start can finish and free their slots.
 */
#include "host/scheduler/scheduler.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/denoising.h"
#include "host/scheduler/method.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/model/model.h"
#include "host/tree/drafter.h"
#include "host/text/generation.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- the list of lanes --------------------------------------------------- */

int scheduler_open(struct scheduler *l, uint32_t width, struct err *e)
{
	l->n_vocab = session_model(l->session)->n_vocab;
	l->width = least(
		least(width, ROWS_SEQUENCES), session_max_rows(l->session));
	l->logits_rows = l->width > 1 || l->env->method->denoise
		? LOGITS_ROWS
		: least(l->lane_rows, LOGITS_ROWS);
	l->logits = malloc(
		(size_t)l->logits_rows * l->n_vocab * sizeof(*l->logits));
	if (!l->logits)
		return err_set(e, ENOMEM, "no memory for the logits of a pass");
	return l->env->drafter ? speculation_open(l, e) : 0;
}

static void close_denoising(struct lane *x)
{
	denoising_close(x->denoising);
	x->denoising = NULL;
}

void scheduler_close(struct scheduler *l)
{
	speculation_close(l);
	for (uint32_t i = 0; i < l->n; i++)
		close_denoising(l->lane[i]);
	free(l->logits);
	free(l->lane);
	l->logits = NULL;
	l->lane = NULL;
	l->n = l->room = 0;
}

int scheduler_add(struct scheduler *l, struct lane *x, struct err *e)
{
	uint32_t room = l->room ? 2 * l->room : 16;
	struct lane **list;

	if (l->n == l->room) {
		list = reallocarray(l->lane, room, sizeof(*list));
		if (!list)
			return err_set(
				e, ENOMEM, "no memory for %u requests", room);
		l->lane = list;
		l->room = room;
	}
	x->scheduler = l;
	x->sequence = LANE_NO_SEQUENCE;
	l->lane[l->n++] = x;
	return 0;
}

void scheduler_drop(struct lane *x)
{
	struct scheduler *l = x->scheduler;
	uint32_t i = 0;

	assert(x->sequence == LANE_NO_SEQUENCE);
	speculation_leave(l, x);
	l->ended += !lane_is_over(x);
	while (l->lane[i] != x)
		i++;
	for (l->n--; i < l->n; i++)
		l->lane[i] = l->lane[i + 1];
}

void lane_move_after(struct lane *x, const struct lane *before)
{
	struct scheduler *l = x->scheduler;
	uint32_t to = 0, at = 0;

	while (to < l->n && l->lane[to] != before)
		to++;
	while (l->lane[at] != x)
		at++;
	for (; at > to + 1; at--) {
		l->lane[at] = l->lane[at - 1];
		l->lane[at - 1] = x;
	}
}

bool lane_is_over(const struct lane *x)
{
	return x->state >= LANE_ENDED;
}

bool lane_is_active(const struct lane *x)
{
	return !lane_is_over(x) && !x->held;
}

void lane_forget(struct lane *x)
{
	if (x->sequence != LANE_NO_SEQUENCE)
		session_remove(x->scheduler->session, x->sequence);
	x->sequence = LANE_NO_SEQUENCE;
	x->ended_before = x->scheduler->ended;
}

void lane_end(struct lane *x, enum lane_state state)
{
	assert(!lane_is_over(x) && state >= LANE_ENDED);
	x->state = state;
	speculation_leave(x->scheduler, x);
	close_denoising(x);
	lane_forget(x);
	x->scheduler->ended++;
}

/* ---- cache slots --------------------------------------------------------- */

/* Number of the lane's tokens that are not cached, not counting its last
 * token. */
static uint32_t unread(const struct scheduler *l, const struct lane *x)
{
	size_t n;

	if (l->env->method->denoise)
		return 0;
	gen_tokens(x->gen, &n);
	return (uint32_t)n - 1 - session_length(l->session, x->sequence);
}

/* Number of additional cache slots that the lane needs: for the next pass or,
 * with a diffusion method, until the lane ends. */
static uint32_t growth(const struct scheduler *l, const struct lane *x)
{
	return l->env->method->denoise
		? denoising_growth(l->session, l->env, x->gen, x->sequence)
		: unread(l, x) + 1;
}

/*
 * Whether there are enough cache slots for the lanes of the pass and, if x is
 * not NULL, for lane x too. Each lane needs the number of slots that growth()
 * returns.
 */
static bool has_room(const struct scheduler *l, const struct lane *x)
{
	uint32_t sequence[ROWS_SEQUENCES], by[ROWS_SEQUENCES];
	uint32_t n = 0;

	for (; n < l->n_in; n++) {
		sequence[n] = l->in[n]->sequence;
		by[n] = growth(l, l->in[n]);
	}
	if (x) {
		sequence[n] = x->sequence;
		by[n++] = growth(l, x);
	}
	return session_has_room(l->session, sequence, by, n);
}

void scheduler_pause_one(struct scheduler *l)
{
	uint32_t i = l->n_in, free = session_free_slots(l->session);

	while (i-- > 0 && !free) {
		uint32_t by = l->unread[i] + 1;

		if (!session_has_room(l->session, &l->in[i]->sequence, &by, 1))
			break;
	}
	i = i < l->n_in ? i : l->n_in - 1;
	l->in[i]->state = LANE_PAUSED;
	l->n_in--;
	for (; i < l->n_in; i++) {
		l->in[i] = l->in[i + 1];
		l->unread[i] = l->unread[i + 1];
	}
	l->stats.pauses++;
}

/*
 * Make room for lane x: the pass has no other lane, but too few cache slots are
 * free for lane x. Find the last other lane in the list that has a cache, and
 * drop the cache of this lane. The caches of diffusion methods are never
 * dropped, because they cannot be computed again. If no cache can be dropped,
 * end lane x.
 */
static void make_room_for(struct scheduler *l, struct lane *x)
{
	for (uint32_t i = l->n; i-- > 0;) {
		struct lane *other = l->lane[i];

		if (other == x || other->sequence == LANE_NO_SEQUENCE ||
			other->denoising)
			continue;
		lane_forget(other);
		if (other->state != LANE_KEPT)
			other->state = LANE_PAUSED;
		l->stats.forgotten++;
		return;
	}
	x->ops->no_room(x);
}

/* ---- choosing the lanes of a pass ---------------------------------------- */

static void put_in(struct scheduler *l, struct lane *x)
{
	l->unread[l->n_in] = unread(l, x);
	l->in[l->n_in++] = x;
}

/* Remove all ended lanes from the pass. */
static void take_out_ended(struct scheduler *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n_in; i++) {
		if (lane_is_over(l->in[i]))
			continue;
		l->unread[n] = l->unread[i];
		l->in[n++] = l->in[i];
	}
	l->n_in = n;
}

struct reading {
	struct lane *lane;
	/* time at which the pass of the next chunk of the prompt began */
	uint64_t began_ns;
};

static void chunk_computed(void *arg, size_t at, uint32_t rows)
{
	struct reading *r = arg;

	if (r->lane->ops->computed)
		r->lane->ops->computed(r->lane, 0, rows, r->began_ns, true);
	r->began_ns = clock_ns();
}

/*
 * Read the prompt of a lane in separate passes, and let the lane draw its first
 * token. The lane's drafter reads the prompt, too, unless this lane never
 * drafts: a closing lane draws no tokens, and the lane of a request with
 * samples leaves the drawing to its samples, which have their own drafters.
 */
static int read_prompt(struct scheduler *l, struct lane *x, struct err *e)
{
	struct reading reading = { x, clock_ns() };
	const struct session_reader reader = { .chunk = chunk_computed,
		.arg = &reading };
	uint32_t from = session_length(l->session, x->sequence), row;
	struct cycle *c;
	size_t n;
	const int32_t *token = gen_tokens(x->gen, &n);
	int ret;

	if (l->speculation && !l->env->method->many && !x->closing) {
		ret = speculation_join(l, x, &c, e);
		if (!ret)
			ret = cycle_read_prompt(c, &row, e);
	} else {
		ret = session_prefill(l->session, x->sequence, token + from,
			n - from, &reader, &row, e);
	}
	if (!ret && !gen_done(x->gen))
		ret = session_logits(l->session, row, 1, l->logits, e);
	if (ret)
		return ret;
	x->ops->draw(x, gen_done(x->gen) ? NULL : l->logits);
	if (!lane_is_over(x) && x->ops->passed)
		x->ops->passed(x);
	return 0;
}

/*
 * Start or resume a lane. Returns 0, or 1 if no cache slots are free for the
 * lane, or a negative errno. After 0 the lane is in the pass, with two
 * exceptions: the lane is no longer active (it has ended, or its owner has set
 * `held`), or the call only read the prompt of the lane.
 */
static int admit(struct scheduler *l, struct lane *x, struct err *e)
{
	bool new_sequence = x->sequence == LANE_NO_SEQUENCE;
	uint32_t left, some;
	const int32_t *token;
	size_t n;
	int ret = x->ops->enter(x, e);

	/* The callback `enter` may have drawn the lane's first token, and the
	 * method may then have cut other lanes. */
	take_out_ended(l);
	if (ret) {
		x->sequence = LANE_NO_SEQUENCE;
		return ret == -ENOSPC ? 1 : ret;
	}
	if (!lane_is_active(x))
		return 0;
	/* This lane reads its prompt alone. read_prompt reports an error if the
	 * prompt does not fit into the cache, so has_room need not be called.
	 * The lane takes part in passes from the next pass on. */
	if (!l->mixed_prefill && !l->env->method->denoise &&
		x->state == LANE_WAITING && !x->root) {
		ret = read_prompt(l, x, e);
		if (!ret && lane_is_active(x))
			x->state = LANE_RUNNING;
		return ret;
	}
	if (!has_room(l, x)) {
		if (new_sequence)
			lane_forget(x);
		return 1;
	}
	if (l->env->method->denoise && !x->denoising)
		ret = lane_start_denoising(x, e);
	/* Without mixed_prefill, tokens whose cache was dropped are prefilled
	 * here, in separate passes. */
	left = l->mixed_prefill ? 0 : unread(l, x);
	token = gen_tokens(x->gen, &n);
	for (; left && !ret; left -= some) {
		some = least(left, session_max_rows(l->session));
		ret = session_continue(
			l->session, x->sequence, token + n - 1 - left, some, e);
		if (!ret)
			ret = session_accept(
				l->session, x->sequence, NULL, some, e);
		l->stats.rows += some;
	}
	if (ret || !lane_is_active(x))
		return ret;
	x->state = LANE_RUNNING;
	put_in(l, x);
	return 0;
}

/*
 * Find the next lane to start or resume. Paused lanes come before lanes that
 * have not begun. A lane whose cache was dropped resumes only after another
 * lane has ended, or if the pass has no other lane. Without this rule two lanes
 * could drop each other's cache forever.
 */
static struct lane *next(const struct scheduler *l)
{
	struct lane *waiting = NULL;
	bool paused = false;

	for (uint32_t i = 0; i < l->n; i++) {
		struct lane *x = l->lane[i];

		paused |= x->state == LANE_PAUSED;
		if (x->held)
			continue;
		if (x->state == LANE_PAUSED &&
			(x->sequence != LANE_NO_SEQUENCE || !l->n_in ||
				x->ended_before < l->ended))
			return x;
		if (x->state == LANE_WAITING && !waiting)
			waiting = x;
	}
	return l->n_in && paused ? NULL : waiting;
}

/*
 * Whether the pass has rows for one more lane. The lanes that are already in
 * the pass get rows for all their uncached tokens first, so the prompts of
 * earlier lanes are read first. A lane that its owner holds back before it has
 * begun counts as a lane of the pass, so that later lanes do not overtake it.
 */
static bool has_rows(const struct scheduler *l)
{
	uint32_t rows = 0, places = l->n_in;

	for (uint32_t i = 0; i < l->n_in; i++)
		rows += l->unread[i] + 1;
	for (uint32_t i = 0; i < l->n; i++)
		places += l->lane[i]->held && l->lane[i]->state == LANE_WAITING;
	return places < l->width &&
		(l->env->method->denoise ||
			rows < session_max_rows(l->session));
}

int scheduler_gather(struct scheduler *l, struct err *e)
{
	bool paused = false;
	struct lane *x = NULL;
	int ret = 0;

	l->n_in = 0;
	for (uint32_t i = 0; i < l->n && l->n_in < l->width; i++)
		if (l->lane[i]->state == LANE_RUNNING &&
			lane_is_active(l->lane[i]))
			put_in(l, l->lane[i]);
	for (; l->n_in > 1 && !has_room(l, NULL); paused = true)
		scheduler_pause_one(l);
	if (l->n_in == 1 && !has_room(l, NULL)) {
		make_room_for(l, l->in[0]);
		l->n_in = 0;
		return 0;
	}
	if (paused)
		return 0;

	while (!ret && has_rows(l) && (x = next(l)))
		ret = admit(l, x, e);
	if (ret == 1 && !l->n_in)
		make_room_for(l, x);
	return ret == 1 ? 0 : ret;
}

/* ---- method_run: one request alone --------------------------------------- */

struct alone {
	struct scheduler scheduler;
	struct lane lane;
	struct err err; /* the lane's error, if a row was unusable */
	int ret;
};

static int enter_alone(struct lane *x, struct err *e)
{
	return 0; /* method_run has set the sequence */
}

static void draw_alone(struct lane *x, const float *logits)
{
	if (logits)
		method_next(x->scheduler->session, x->gen, logits);
}

/* End the lane, but do not free its sequence (SESSION_TEXT) and the cache of
 * this sequence. */
static void end_alone(struct lane *x, enum lane_state state)
{
	x->sequence = LANE_NO_SEQUENCE;
	lane_end(x, state);
}

static void passed_alone(struct lane *x)
{
	if (gen_done(x->gen))
		end_alone(x, LANE_ENDED);
}

static void no_room_alone(struct lane *x)
{
	gen_no_room(x->gen);
	end_alone(x, LANE_ENDED);
}

static void fail_alone(struct lane *x, const struct err *e)
{
	struct alone *a =
		(struct alone *)((char *)x - offsetof(struct alone, lane));

	a->err = *e;
	a->ret = e->code;
	end_alone(x, LANE_FAILED);
}

static const struct lane_ops ops_alone = {
	.enter = enter_alone,
	.draw = draw_alone,
	.passed = passed_alone,
	.no_room = no_room_alone,
	.fail = fail_alone,
};

int method_run(struct session *s, struct generation *g, struct method_env *env,
	struct err *e)
{
	uint32_t rows = env->method->decode_rows(env);
	struct alone a = { .lane = { .ops = &ops_alone, .gen = g } };
	struct scheduler *l = &a.scheduler;
	int ret;

	*l = (struct scheduler){
		.session = s, .env = env, .tree_rows = rows, .lane_rows = rows
	};
	ret = scheduler_open(l, 1, e);
	if (!ret)
		ret = scheduler_add(l, &a.lane, e);
	a.lane.sequence = SESSION_TEXT;
	while (!ret && !gen_done(g) && lane_is_active(&a.lane))
		ret = scheduler_step(l, e);
	if (!ret && a.ret) {
		*e = a.err;
		ret = a.ret;
	}
	scheduler_close(l);
	return ret;
}
