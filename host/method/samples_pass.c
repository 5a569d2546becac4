/*
 * Who is in a pass, and the pass. Samples are begun in the order of their
 * numbers; where slots run out the last ones wait, so that the first ones end
 * and give theirs back.
 */
#include "host/method/samples_impl.h"

#include "host/method/method.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <string.h>

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

/* The rows of one's tree, or its last token alone. */
static uint32_t put_rows(struct samples *p, uint32_t i)
{
	const struct sample *s = p->in[i];
	const struct tree *t = p->tree[i];
	struct row *row = p->row + p->n_rows;
	uint32_t length = session_length(p->session, s->sequence);
	size_t n;
	const int32_t *token = gen_tokens(s->gen, &n);

	p->first[i] = p->n_rows;
	if (!t) {
		rows_tree(row, s->sequence, length, token + n - 1, NULL, 1);
		return 1;
	}
	rows_tree(row, s->sequence, length, t->token, t->parent, t->n);
	for (uint32_t k = 1; k < t->n; k++)
		row[k].parent += (int32_t)p->n_rows;
	return t->n;
}

static int forward(struct samples *p, struct err *e)
{
	p->n_rows = 0;
	for (uint32_t i = 0; i < p->n_in; i++)
		p->n_rows += put_rows(p, i);
	return session_forward(p->session,
		&(const struct rows){ SIGHT_TREE, p->n_rows, p->row }, e);
}

static void forget_trees(struct samples *p)
{
	memset(p->tree, 0, sizeof(p->tree));
}

static int run_rows(struct samples *p, struct err *e)
{
	int ret;

	forget_trees(p);
	ret = p->speculation ? speculation_draft(p, e) : 0;
	if (ret)
		return ret;
	ret = forward(p, e);
	/* Of what they see there are more spans than a pass can tell. */
	while (ret == -ENOSPC && p->n_in > 1) {
		forget_trees(p);
		pause_one(p);
		ret = forward(p, e);
	}
	p->stats.passes += !ret;
	p->stats.rows += ret ? 0 : p->n_rows;
	return ret;
}

/* ---- the walk ------------------------------------------------------------ */

/* The row of what was drawn behind the one at hand, -1: none. */
static int64_t next_row(const struct samples *p, uint32_t i)
{
	const struct tree *t = p->tree[i];
	size_t n;
	const int32_t *token = gen_tokens(p->in[i]->gen, &n);
	int32_t child = -1;

	if (t && goes_on(p->in[i]))
		child = tree_child(
			t, (uint32_t)p->at[i] - p->first[i], token[n - 1]);
	return child < 0 ? -1 : (int64_t)p->first[i] + child;
}

/* The i-th draws from the row where it stands, and goes on from there. */
static void step(struct samples *p, uint32_t i, const float *logits)
{
	uint32_t row = (uint32_t)p->at[i];

	if (sample_is_over(p->in[i])) {
		p->at[i] = -1;
		return;
	}
	p->path[p->first[i] + p->n_path[i]++] = row;
	sample_draw(p, p->in[i], logits);
	if (p->speculation)
		speculation_passed(p, i, row, logits);
	p->at[i] = next_row(p, i);
}

/* One row is spoilt: who it is, ends; the others are as good as ever. */
static int step_one_by_one(
	struct samples *p, const uint32_t *who, uint32_t n, struct err *e)
{
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = who[k];
		int ret = session_logits(
			p->session, (uint32_t)p->at[i], p->logits, e);

		if (ret && ret != -EPROTO)
			return ret;
		if (!ret) {
			step(p, i, p->logits);
			continue;
		}
		p->at[i] = -1;
		if (sample_is_over(p->in[i]))
			continue;
		p->in[i]->err = *e;
		sample_end(p, p->in[i], SAMPLE_FAILED);
	}
	return 0;
}

/* Rows that one reading of the output matrix does. */
static int step_some(
	struct samples *p, const uint32_t *who, uint32_t n, struct err *e)
{
	float *out[LOGITS_ROWS];
	uint32_t row[LOGITS_ROWS];
	int ret;

	for (uint32_t k = 0; k < n; k++) {
		row[k] = (uint32_t)p->at[who[k]];
		out[k] = p->logits + (size_t)k * p->n_vocab;
	}
	ret = session_logits_rows(p->session, row, n, out, e);
	if (ret == -EPROTO)
		return step_one_by_one(p, who, n, e);
	for (uint32_t k = 0; k < n && !ret; k++)
		step(p, who[k], out[k]);
	return ret;
}

/* All of them a row further. */
static int step_all(
	struct samples *p, const uint32_t *who, uint32_t n, struct err *e)
{
	int ret = 0;

	for (uint32_t k = 0, some; k < n && !ret; k += some) {
		const float *known = p->speculation
			? speculation_logits(p, (uint32_t)p->at[who[k]])
			: NULL;

		some = known ? 1 : n - k < LOGITS_ROWS ? n - k : LOGITS_ROWS;
		if (known)
			step(p, who[k], known);
		else
			ret = step_some(p, who + k, some, e);
	}
	return ret;
}

/* Down the trees for as long as they were right. */
static int walk(struct samples *p, struct err *e)
{
	uint32_t who[ROWS_SEQUENCES], n = p->n_in;
	int ret = p->speculation ? speculation_read(p, e) : 0;

	for (uint32_t i = 0; i < n; i++) {
		who[i] = i;
		p->at[i] = p->first[i];
		p->n_path[i] = 0;
	}
	while (n && !ret) {
		ret = step_all(p, who, n, e);
		n = 0;
		for (uint32_t i = 0; i < p->n_in; i++)
			if (p->at[i] >= 0)
				who[n++] = i;
	}
	return ret;
}

static int keep(struct samples *p, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < p->n_in && !ret; i++) {
		struct sample *s = p->in[i];

		if (!sample_is_over(s))
			ret = session_accept(p->session, s->sequence,
				p->path + p->first[i], p->n_path[i], e);
		if (!ret && p->speculation)
			speculation_saw(p, i);
	}
	return ret;
}

static int pass(struct samples *p, struct err *e)
{
	const struct samples_sink *sink = &p->env->samples_sink;
	int ret = run_rows(p, e);

	if (!ret)
		ret = walk(p, e);
	if (!ret)
		ret = keep(p, e);
	if (!ret && sink->tell)
		sink->tell(sink->arg, p);
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
		if (!ret && p->no_memory)
			ret = err_set(e, ENOMEM, "no memory for samples");
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
