/*
 * Who is in a pass. Lanes begin in their order; where slots run out the last
 * ones wait, so that the first ones end and give theirs back.
 */
#include "host/method/lanes.h"

#include "base/err.h"
#include "host/method/cycle.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
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

/* ---- all of them --------------------------------------------------------- */

int lanes_open(struct lanes *l, uint32_t width, struct err *e)
{
	l->n_vocab = session_model(l->session)->n_vocab;
	l->width = least(
		least(width, ROWS_SEQUENCES), session_max_rows(l->session));
	l->logits_rows = l->width > 1 || l->env->method->denoise
		? LOGITS_ROWS
		: least(l->lane_rows, LOGITS_ROWS);
	if (l->env->drafter && l->env->drafter->all_rows)
		l->logits_rows =
			least(l->tree_rows, session_max_rows(l->session));
	l->logits = malloc(
		(size_t)l->logits_rows * l->n_vocab * sizeof(*l->logits));
	if (!l->logits)
		return err_set(e, ENOMEM, "no memory for logits");
	return l->env->drafter ? speculation_open(l, e) : 0;
}

static void close_denoising(struct lane *x)
{
	denoising_close(x->denoising);
	x->denoising = NULL;
}

void lanes_close(struct lanes *l)
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

int lanes_add(struct lanes *l, struct lane *x, struct err *e)
{
	uint32_t room = l->room ? 2 * l->room : 16;
	struct lane **list;

	if (l->n == l->room) {
		list = reallocarray(l->lane, room, sizeof(*list));
		if (!list)
			return err_set(
				e, ENOMEM, "no memory for %u texts", room);
		l->lane = list;
		l->room = room;
	}
	x->lanes = l;
	x->sequence = LANE_NOWHERE;
	l->lane[l->n++] = x;
	return 0;
}

void lanes_drop(struct lane *x)
{
	struct lanes *l = x->lanes;
	uint32_t i = 0;

	assert(x->sequence == LANE_NOWHERE);
	speculation_leave(l, x);
	l->over += !lane_is_over(x);
	while (l->lane[i] != x)
		i++;
	for (l->n--; i < l->n; i++)
		l->lane[i] = l->lane[i + 1];
}

void lane_go_behind(struct lane *x, const struct lane *before)
{
	struct lanes *l = x->lanes;
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

bool lane_goes_on(const struct lane *x)
{
	return !lane_is_over(x) && !x->held;
}

uint32_t lanes_in(const struct lanes *l, enum lane_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += l->lane[i]->state == state;
	return n;
}

bool lanes_left(const struct lanes *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (lane_goes_on(l->lane[i]))
			return true;
	return false;
}

void lane_forget(struct lane *x)
{
	if (x->sequence != LANE_NOWHERE)
		session_remove(x->lanes->session, x->sequence);
	x->sequence = LANE_NOWHERE;
	x->freed = x->lanes->over;
}

void lane_end(struct lane *x, enum lane_state state)
{
	assert(!lane_is_over(x) && state >= LANE_ENDED);
	x->state = state;
	speculation_leave(x->lanes, x);
	close_denoising(x);
	lane_forget(x);
	x->lanes->over++;
}

/* ---- room ---------------------------------------------------------------- */

/* Tokens that are to be computed before its last. */
static uint32_t unread(const struct lanes *l, const struct lane *x)
{
	size_t n;

	if (l->env->method->denoise)
		return 0;
	gen_tokens(x->gen, &n);
	return (uint32_t)n - 1 - session_length(l->session, x->sequence);
}

/* Slots that it has to find free: for a pass, or where masks are filled until
 * its end. */
static uint32_t growth(const struct lanes *l, const struct lane *x)
{
	return l->env->method->denoise
		? denoising_growth(l->session, l->env, x->gen, x->sequence)
		: unread(l, x) + 1;
}

/* Whether there is room for those in the pass and, where it is not NULL, for
 * one more; for all of what they have not read yet. */
static bool has_room(const struct lanes *l, const struct lane *x)
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

void lanes_pause_one(struct lanes *l)
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

/* What is cached of the last one that waits is forgotten, so that another can
 * go on; false: there is none. */
static bool forget_one(struct lanes *l, const struct lane *for_whom)
{
	for (uint32_t i = l->n; i-- > 0;) {
		struct lane *x = l->lane[i];

		if (x == for_whom || x->sequence == LANE_NOWHERE ||
			x->denoising)
			continue;
		lane_forget(x);
		if (x->state != LANE_KEPT)
			x->state = LANE_PAUSED;
		l->stats.forgotten++;
		return true;
	}
	return false;
}

/* There is no room for that one alone: others make it, or it ends. */
static void want_room(struct lanes *l, struct lane *x)
{
	if (!forget_one(l, x))
		x->owner->no_room(x);
}

/* ---- who is in it -------------------------------------------------------- */

/* In passes of its own. */
static int read_apart(struct lanes *l, const struct lane *x, struct err *e)
{
	uint32_t most = session_max_rows(l->session), left = unread(l, x);
	size_t n;
	const int32_t *token = gen_tokens(x->gen, &n);
	int ret = 0;

	for (uint32_t some; left && !ret; left -= some) {
		some = least(left, most);
		ret = session_continue(
			l->session, x->sequence, token + n - 1 - left, some, e);
		if (!ret)
			ret = session_accept(
				l->session, x->sequence, NULL, some, e);
		l->stats.rows += some;
	}
	return ret;
}

static void put_in(struct lanes *l, struct lane *x)
{
	l->unread[l->n_in] = unread(l, x);
	l->in[l->n_in++] = x;
}

/*
 * It goes on, or begins: 0, and it is in the pass or over; 1: there is no room
 * for it now.
 */
static int admit(struct lanes *l, struct lane *x, struct err *e)
{
	bool outside = x->sequence == LANE_NOWHERE;
	int ret = x->owner->enter(x, e);

	if (ret) {
		x->sequence = LANE_NOWHERE;
		return ret == -ENOSPC ? 1 : ret;
	}
	if (!lane_goes_on(x))
		return 0;
	if (!has_room(l, x)) {
		if (outside)
			lane_forget(x);
		return 1;
	}
	if (l->env->method->denoise && !x->denoising)
		ret = lane_start_denoising(x, e);
	else if (!l->rides)
		ret = read_apart(l, x, e);
	if (ret || !lane_goes_on(x))
		return ret;
	x->state = LANE_RUNNING;
	put_in(l, x);
	return 0;
}

/* The next one that is not in a pass: a paused one, for it was there before,
 * or one that was not begun. What was forgotten is only computed again when
 * others are over. */
static struct lane *next(const struct lanes *l)
{
	struct lane *waiting = NULL;

	for (uint32_t i = 0; i < l->n; i++) {
		struct lane *x = l->lane[i];

		if (x->held)
			continue;
		if (x->state == LANE_PAUSED &&
			(x->sequence != LANE_NOWHERE || !l->n_in ||
				x->freed < l->over))
			return x;
		if (x->state == LANE_WAITING && !waiting)
			waiting = x;
	}
	return l->n_in && lanes_in(l, LANE_PAUSED) ? NULL : waiting;
}

/* Those that run, as far as there is room; false: one had to wait. */
static bool take_running(struct lanes *l)
{
	bool all = true;

	l->n_in = 0;
	for (uint32_t i = 0; i < l->n && l->n_in < l->width; i++)
		if (l->lane[i]->state == LANE_RUNNING &&
			lane_goes_on(l->lane[i]))
			put_in(l, l->lane[i]);
	for (; l->n_in > 1 && !has_room(l, NULL); all = false)
		lanes_pause_one(l);
	return all;
}

/* Who is held before it began will have a place sooner than who came later. */
static uint32_t places_held(const struct lanes *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += l->lane[i]->held && l->lane[i]->state == LANE_WAITING;
	return n;
}

/* Whether the pass has rows for one more: those who are in it want theirs
 * first, so a prompt is read when the ones before it are. */
static bool has_rows(const struct lanes *l)
{
	uint32_t rows = 0;

	for (uint32_t i = 0; i < l->n_in; i++)
		rows += l->unread[i] + 1;
	return l->n_in + places_held(l) < l->width &&
		(l->env->method->denoise ||
			rows < session_max_rows(l->session));
}

static int take_others(struct lanes *l, struct err *e)
{
	struct lane *x;
	int ret = 0;

	while (!ret && has_rows(l) && (x = next(l)))
		ret = admit(l, x, e);
	if (ret == 1 && !l->n_in)
		want_room(l, x);
	return ret == 1 ? 0 : ret;
}

int lanes_gather(struct lanes *l, struct err *e)
{
	bool all = take_running(l);

	if (l->n_in == 1 && !has_room(l, NULL)) {
		want_room(l, l->in[0]);
		l->n_in = 0;
		return 0;
	}
	return all ? take_others(l, e) : 0;
}

/* ---- one request alone --------------------------------------------------- */

struct alone {
	struct lanes lanes;
	struct lane lane;
	struct err err; /* of a spoilt row */
	int ret;
};

static struct alone *alone_of(struct lane *x)
{
	return (struct alone *)((char *)x - offsetof(struct alone, lane));
}

static int enter_alone(struct lane *x, struct err *e)
{
	return 0; /* its sequence is there, and its prompt read */
}

static void draw_alone(struct lane *x, const float *logits)
{
	method_next(x->lanes->session, x->gen, logits);
}

/* SESSION_TEXT stays as it is. */
static void end_alone(struct lane *x, enum lane_state state)
{
	x->sequence = LANE_NOWHERE;
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

static void spoilt_alone(struct lane *x, const struct err *e)
{
	struct alone *a = alone_of(x);

	a->err = *e;
	a->ret = e->code;
	end_alone(x, LANE_FAILED);
}

static const struct lane_owner owner_alone = {
	.enter = enter_alone,
	.draw = draw_alone,
	.passed = passed_alone,
	.no_room = no_room_alone,
	.spoilt = spoilt_alone,
};

static int read_prompt_alone(struct alone *a, struct err *e)
{
	struct lanes *l = &a->lanes;
	struct generation *g = a->lane.gen;
	uint32_t row;
	int ret = method_prefill(l->session, g, &row, e);

	if (ret || gen_done(g))
		return ret;
	ret = session_logits(l->session, row, l->logits, e);
	if (!ret)
		method_next(l->session, g, l->logits);
	return ret;
}

int method_run(struct session *s, struct generation *g, struct method_env *env,
	struct err *e)
{
	uint32_t rows = env->method->decode_rows(env);
	struct alone a = { .lane = { .owner = &owner_alone, .gen = g } };
	struct lanes *l = &a.lanes;
	struct cycle *c;
	int ret;

	*l = (struct lanes){
		.session = s, .env = env, .tree_rows = rows, .lane_rows = rows
	};
	ret = lanes_open(l, 1, e);
	if (!ret)
		ret = lanes_add(l, &a.lane, e);
	a.lane.sequence = SESSION_TEXT;
	if (!ret && l->speculation) {
		ret = speculation_join(l, &a.lane, &c, e);
		if (!ret)
			ret = cycle_read_prompt(c, e);
	} else if (!ret && !env->method->denoise) {
		ret = read_prompt_alone(&a, e);
	}
	while (!ret && !gen_done(g) && lanes_left(l))
		ret = lanes_pass(l, e);
	if (!ret && a.ret) {
		*e = a.err;
		ret = a.ret;
	}
	lanes_close(l);
	return ret;
}
