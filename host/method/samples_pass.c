/*
 * Who is in a pass, and the pass. Samples are begun in the order of their
 * numbers; where slots run out the last ones wait, so that the first ones end
 * and give theirs back.
 */
#include "host/method/samples_impl.h"

#include "host/method/method.h"
#include "host/session/logits.h"
#include "host/session/session.h"

#include <errno.h>

static bool goes_on(const struct sample *s)
{
	return !sample_is_over(s) && !s->held;
}

/* ---- room ---------------------------------------------------------------- */

/* Whether there is room for those in the pass and, where it is not NULL, for
 * one that goes on by `more`. */
static bool has_room(
	const struct samples *p, const struct sample *s, uint32_t more)
{
	uint32_t sequence[ROWS_SEQUENCES], by[ROWS_SEQUENCES];
	uint32_t n = 0;

	for (; n < p->n_in; n++) {
		sequence[n] = p->in[n]->sequence;
		by[n] = 1;
	}
	if (s) {
		sequence[n] = s->sequence;
		by[n++] = more;
	}
	return session_has_room(p->session, sequence, by, n);
}

/* The last one in the pass that would take slots, else the last. */
static void pause_one(struct samples *p)
{
	uint32_t i = p->n_in, one = 1, free = session_free_slots(p->session);

	while (i-- > 0 && !free)
		if (!session_has_room(p->session, &p->in[i]->sequence, &one, 1))
			break;
	i = i < p->n_in ? i : p->n_in - 1;
	p->in[i]->state = SAMPLE_PAUSED;
	p->n_in--;
	for (; i < p->n_in; i++)
		p->in[i] = p->in[i + 1];
	p->stats.pauses++;
}

/* What is cached of the last one that waits is forgotten, so that another can
 * go on; false: there is none. */
static bool forget_one(struct samples *p, const struct sample *for_whom)
{
	for (uint32_t i = p->n; i-- > 0;) {
		struct sample *s = p->sample[i];

		if (s == for_whom || s->sequence == SAMPLE_NOWHERE)
			continue;
		sample_forget(p, s);
		s->state = SAMPLE_PAUSED;
		p->stats.forgotten++;
		return true;
	}
	return false;
}

/* There is no room for that one alone: others make it, or it ends. */
static void want_room(struct samples *p, struct sample *s)
{
	if (forget_one(p, s))
		return;
	gen_no_room(s->gen);
	s->stop = gen_stop_reason(s->gen);
	sample_end(p, s, SAMPLE_ENDED);
}

/* ---- who is in it -------------------------------------------------------- */

/* Tokens of a sample that are to be computed before its last. */
static uint32_t tail_of(const struct samples *p, const struct sample *s)
{
	size_t n;

	gen_tokens(s->gen, &n);
	return (uint32_t)n - 1 - session_length(p->session, s->sequence);
}

static int compute_tail(struct samples *p, struct sample *s, struct err *e)
{
	uint32_t most = session_max_rows(p->session), left = tail_of(p, s);
	size_t n;
	const int32_t *token = gen_tokens(s->gen, &n);
	int ret = 0;

	for (uint32_t some; left && !ret; left -= some) {
		some = left < most ? left : most;
		ret = session_continue(
			p->session, s->sequence, token + n - 1 - left, some, e);
		if (!ret)
			ret = session_accept(
				p->session, s->sequence, NULL, some, e);
		p->stats.rows += some;
	}
	return ret;
}

/*
 * It goes on, or begins: 0, and it is in the pass or over; 1: there is no room
 * for it now.
 */
static int admit(struct samples *p, struct sample *s, struct err *e)
{
	bool forked = s->sequence == SAMPLE_NOWHERE;
	int ret = 0;

	if (!s->n)
		sample_draw(p, s, p->prompt_logits);
	if (!goes_on(s))
		return 0;
	if (forked)
		ret = session_fork(p->session, SESSION_TEXT, &s->sequence, e);
	if (ret) {
		s->sequence = SAMPLE_NOWHERE;
		return ret == -ENOSPC ? 1 : ret;
	}
	if (!has_room(p, s, tail_of(p, s) + 1)) {
		if (forked)
			sample_forget(p, s);
		return 1;
	}
	ret = compute_tail(p, s, e);
	if (ret)
		return ret;
	s->state = SAMPLE_RUNNING;
	p->in[p->n_in++] = s;
	return 0;
}

/* The next one that is not in a pass: a paused one, for it was there before,
 * or one that was not begun. What was forgotten is only computed again when
 * others are over. */
static struct sample *next(const struct samples *p)
{
	struct sample *waiting = NULL;

	for (uint32_t i = 0; i < p->n; i++) {
		struct sample *s = p->sample[i];

		if (s->held)
			continue;
		if (s->state == SAMPLE_PAUSED &&
			(s->sequence != SAMPLE_NOWHERE || !p->n_in ||
				s->freed < p->over))
			return s;
		if (s->state == SAMPLE_WAITING && !waiting)
			waiting = s;
	}
	return p->n_in && samples_in(p, SAMPLE_PAUSED) ? NULL : waiting;
}

/* Those that run, as far as there is room; false: one had to wait. */
static bool take_running(struct samples *p)
{
	bool all = true;

	p->n_in = 0;
	for (uint32_t i = 0; i < p->n && p->n_in < p->width; i++)
		if (p->sample[i]->state == SAMPLE_RUNNING &&
			goes_on(p->sample[i]))
			p->in[p->n_in++] = p->sample[i];
	for (; p->n_in > 1 && !has_room(p, NULL, 0); all = false)
		pause_one(p);
	return all;
}

static int take_others(struct samples *p, struct err *e)
{
	struct sample *s;
	int ret = 0;

	while (!ret && p->n_in < p->width && (s = next(p)))
		ret = admit(p, s, e);
	if (ret == 1 && !p->n_in)
		want_room(p, s);
	return ret == 1 ? 0 : ret;
}

/* p->in; none: something changed, or nothing is left to be done. */
static int gather(struct samples *p, struct err *e)
{
	bool all = take_running(p);

	if (p->n_in == 1 && !has_room(p, NULL, 0)) {
		want_room(p, p->in[0]);
		p->n_in = 0;
		return 0;
	}
	return all ? take_others(p, e) : 0;
}

/* ---- the pass ------------------------------------------------------------ */

static int forward(struct samples *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_in; i++) {
		size_t n;
		const int32_t *token = gen_tokens(p->in[i]->gen, &n);

		p->row[i] = (struct row){ .token = token[n - 1],
			.position = (uint32_t)n - 1,
			.sequence = p->in[i]->sequence,
			.parent = -1 };
	}
	return session_forward(p->session,
		&(const struct rows){ SIGHT_TREE, p->n_in, p->row }, e);
}

static int run_rows(struct samples *p, struct err *e)
{
	int ret = forward(p, e);

	/* Of what they see there are more spans than a pass can tell. */
	while (ret == -ENOSPC && p->n_in > 1) {
		pause_one(p);
		ret = forward(p, e);
	}
	for (uint32_t i = 0; i < p->n_in && !ret; i++)
		ret = session_accept(
			p->session, p->in[i]->sequence, NULL, 1, e);
	p->stats.passes += !ret;
	p->stats.rows += ret ? 0 : p->n_in;
	return ret;
}

/* One row is spoilt: who it is, ends; the others are as good as ever. */
static int draw_one_by_one(
	struct samples *p, uint32_t first, uint32_t n, struct err *e)
{
	for (uint32_t i = first; i < first + n; i++) {
		struct sample *s = p->in[i];
		int ret = session_logits(p->session, i, p->logits, e);

		if (ret == -EPROTO) {
			s->err = *e;
			sample_end(p, s, SAMPLE_FAILED);
		} else if (ret) {
			return ret;
		} else if (!sample_is_over(s)) {
			sample_draw(p, s, p->logits);
		}
	}
	return 0;
}

/* Rows that one reading of the output matrix does. */
static int draw_some(
	struct samples *p, uint32_t first, uint32_t n, struct err *e)
{
	float *out[LOGITS_ROWS];
	uint32_t row[LOGITS_ROWS];
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		row[i] = first + i;
		out[i] = p->logits + (size_t)i * p->n_vocab;
	}
	ret = session_logits_rows(p->session, row, n, out, e);
	if (ret == -EPROTO)
		return draw_one_by_one(p, first, n, e);
	for (uint32_t i = 0; i < n && !ret; i++)
		if (!sample_is_over(p->in[first + i]))
			sample_draw(p, p->in[first + i], out[i]);
	return ret;
}

static int pass(struct samples *p, struct err *e)
{
	int ret = run_rows(p, e);

	for (uint32_t i = 0, some; i < p->n_in && !ret; i += some) {
		some = p->n_in - i < LOGITS_ROWS ? p->n_in - i : LOGITS_ROWS;
		ret = draw_some(p, i, some, e);
	}
	if (!ret && p->sink->tell)
		p->sink->tell(p->sink->arg, p);
	return ret;
}

/* ---- all of it ----------------------------------------------------------- */

static bool is_left(const struct samples *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (goes_on(p->sample[i]))
			return true;
	return false;
}

static int run(struct samples *p, bool by_step, struct err *e)
{
	int ret = 0;

	p->by_step = by_step;
	for (uint32_t i = 0; i < p->n; i++)
		p->sample[i]->held = false;
	while (!ret && is_left(p)) {
		ret = gather(p, e);
		if (!ret && p->n_in)
			ret = pass(p, e);
	}
	return ret;
}

int samples_run(struct samples *p, struct err *e)
{
	return run(p, false, e);
}

int samples_run_step(struct samples *p, struct err *e)
{
	return run(p, true, e);
}
