/*
 * A pass of lanes: their rows, the walk down their trees, and what of it is
 * kept.
 */
#include "host/method/lanes.h"

#include "base/clock.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <string.h>

/* ---- the pass ------------------------------------------------------------ */

/* Rows of the i-th, that hang from one another; what of them stands in its
 * prompt reads that. */
static uint32_t put(struct lanes *l, uint32_t i, const int32_t *token,
	const int32_t *parent, uint32_t n)
{
	const struct lane *x = l->in[i];
	struct row *row = l->row + l->n_rows;

	rows_tree(row, x->sequence, session_length(l->session, x->sequence),
		token, parent, n);
	for (uint32_t k = 0; k < n; k++) {
		row[k].prompt = row[k].position < gen_prompt_length(x->gen);
		if (k)
			row[k].parent += (int32_t)l->n_rows;
	}
	return n;
}

/* Its next unread tokens and, where no more are left, its last. */
static uint32_t put_unread(struct lanes *l, uint32_t i, uint32_t most)
{
	uint32_t want = l->unread[i] + 1;
	size_t n;
	const int32_t *token = gen_tokens(l->in[i]->gen, &n);

	return put(l, i, token + session_length(l->session, l->in[i]->sequence),
		NULL, want < most ? want : most);
}

/* The rows of one's tree, or its last token alone. */
static uint32_t put_rows(struct lanes *l, uint32_t i)
{
	const struct tree *t = l->tree[i];

	return t ? put(l, i, t->token, t->parent, t->n) : put_unread(l, i, 1);
}

/* Those who write have their rows; what is left of the pass is for those who
 * read, and the first of them is through soonest. */
static void put_all(struct lanes *l)
{
	uint32_t most = session_max_rows(l->session);

	l->n_rows = 0;
	for (uint32_t i = 0; i < l->n_in; i++) {
		l->first[i] = l->n_rows;
		l->got[i] = l->unread[i] ? 0 : put_rows(l, i);
		l->n_rows += l->got[i];
	}
	for (uint32_t i = 0; i < l->n_in && l->n_rows < most; i++) {
		if (!l->unread[i])
			continue;
		l->first[i] = l->n_rows;
		l->got[i] = put_unread(l, i, most - l->n_rows);
		l->n_rows += l->got[i];
	}
}

static int forward(struct lanes *l, struct err *e)
{
	uint64_t began = l->owner.computed ? clock_ns() : 0;
	int ret;

	put_all(l);
	ret = session_forward(l->session,
		&(const struct rows){ SIGHT_TREE, l->n_rows, l->row }, e);
	if (!ret && l->owner.computed)
		l->owner.computed(l->owner.arg, l, began);
	return ret;
}

static void forget_trees(struct lanes *l)
{
	memset(l->tree, 0, sizeof(l->tree));
}

/* While one reads, nothing is drafted: the rows are for that. */
static bool drafts(const struct lanes *l)
{
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->unread[i])
			return false;
	return l->speculation;
}

static int run_rows(struct lanes *l, struct err *e)
{
	int ret;

	forget_trees(l);
	l->drafts = drafts(l);
	ret = l->drafts ? speculation_draft(l, e) : 0;
	if (ret)
		return ret;
	ret = forward(l, e);
	/* Of what they see there are more spans than a pass can tell. */
	while (ret == -ENOSPC && l->n_in > 1) {
		forget_trees(l);
		lanes_pause_one(l);
		ret = forward(l, e);
	}
	l->stats.passes += !ret;
	l->stats.rows += ret ? 0 : l->n_rows;
	return ret;
}

/* ---- the walk ------------------------------------------------------------ */

/* The row of what was drawn behind the one at hand, -1: none. */
static int64_t next_row(const struct lanes *l, uint32_t i)
{
	const struct tree *t = l->tree[i];
	size_t n;
	const int32_t *token = gen_tokens(l->in[i]->gen, &n);
	int32_t child = -1;

	if (t && lane_goes_on(l->in[i]) && !gen_done(l->in[i]->gen))
		child = tree_child(
			t, (uint32_t)l->at[i] - l->first[i], token[n - 1]);
	return child < 0 ? -1 : (int64_t)l->first[i] + child;
}

/* The i-th draws from the row where it stands, and goes on from there. */
static void step(struct lanes *l, uint32_t i, const float *logits)
{
	uint32_t row = (uint32_t)l->at[i];

	if (lane_is_over(l->in[i])) {
		l->at[i] = -1;
		return;
	}
	if (!l->unread[i])
		l->path[l->first[i] + l->n_path[i]++] = row;
	if (l->owner.came)
		l->owner.came(l->owner.arg, l->in[i], row);
	if (!lane_is_over(l->in[i]))
		l->owner.draw(l->owner.arg, l->in[i], logits);
	if (l->drafts && logits)
		speculation_passed(l, i, row, logits);
	l->at[i] = next_row(l, i);
}

/* One row is spoilt: who it is, ends; the others are as good as ever. */
static int step_one_by_one(
	struct lanes *l, const uint32_t *who, uint32_t n, struct err *e)
{
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = who[k];
		int ret = session_logits(
			l->session, (uint32_t)l->at[i], l->logits, e);

		if (ret && ret != -EPROTO)
			return ret;
		if (!ret) {
			step(l, i, l->logits);
			continue;
		}
		l->at[i] = -1;
		if (!lane_is_over(l->in[i]))
			l->owner.spoilt(l->owner.arg, l->in[i], e);
	}
	return 0;
}

/* Rows that one reading of the output matrix does. */
static int step_some(
	struct lanes *l, const uint32_t *who, uint32_t n, struct err *e)
{
	float *out[LOGITS_ROWS];
	uint32_t row[LOGITS_ROWS];
	int ret;

	for (uint32_t k = 0; k < n; k++) {
		row[k] = (uint32_t)l->at[who[k]];
		out[k] = l->logits + (size_t)k * l->n_vocab;
	}
	ret = session_logits_rows(l->session, row, n, out, e);
	if (ret == -EPROTO)
		return step_one_by_one(l, who, n, e);
	for (uint32_t k = 0; k < n && !ret; k++)
		step(l, who[k], out[k]);
	return ret;
}

/* All of them a row further. */
static int step_all(
	struct lanes *l, const uint32_t *who, uint32_t n, struct err *e)
{
	int ret = 0;

	for (uint32_t k = 0, some; k < n && !ret; k += some) {
		const float *known = l->drafts
			? speculation_logits(l, (uint32_t)l->at[who[k]])
			: NULL;

		some = known ? 1 : n - k < LOGITS_ROWS ? n - k : LOGITS_ROWS;
		if (known)
			step(l, who[k], known);
		else
			ret = step_some(l, who + k, some, e);
	}
	return ret;
}

/* A row that writes, or the last of one that has read all. */
static void begin_walk(struct lanes *l, uint32_t i)
{
	uint32_t read = l->unread[i] ? l->got[i] : 0;

	l->at[i] = l->first[i];
	l->n_path[i] = read;
	for (uint32_t k = 0; k < read; k++)
		l->path[l->first[i] + k] = l->first[i] + k;
	if (l->unread[i])
		l->at[i] = read > l->unread[i] ? (int64_t)l->first[i] + read - 1
					       : -1;
}

/* Who stands at a row whose logits are wanted; the others have had theirs. */
static uint32_t who_draws(struct lanes *l, uint32_t who[ROWS_SEQUENCES])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->at[i] >= 0 && l->in[i]->closing &&
			gen_done(l->in[i]->gen))
			step(l, i, NULL);
		else if (l->at[i] >= 0)
			who[n++] = i;
	return n;
}

/* Down the trees for as long as they were right. */
static int walk(struct lanes *l, struct err *e)
{
	uint32_t who[ROWS_SEQUENCES], n;
	int ret = l->drafts ? speculation_read(l, e) : 0;

	for (uint32_t i = 0; i < l->n_in; i++)
		begin_walk(l, i);
	do {
		n = ret ? 0 : who_draws(l, who);
		ret = n ? step_all(l, who, n, e) : ret;
	} while (n && !ret);
	return ret;
}

static void count(struct lanes *l, uint32_t i)
{
	struct lane *x = l->in[i];
	const struct tree *t = l->tree[i];

	x->passes += l->got[i] > 0;
	x->drafted += t ? t->n - 1 : 0;
	x->accepted += t && l->n_path[i] ? l->n_path[i] - 1 : 0;
}

static int keep(struct lanes *l, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in && !ret; i++) {
		struct lane *x = l->in[i];

		count(l, i);
		if (!lane_is_over(x))
			ret = session_accept(l->session, x->sequence,
				l->path + l->first[i], l->n_path[i], e);
		if (!ret && l->drafts)
			speculation_saw(l, i);
		if (!ret && l->owner.passed && !lane_is_over(x))
			l->owner.passed(l->owner.arg, x);
	}
	return ret;
}

int lanes_pass(struct lanes *l, struct err *e)
{
	int ret = lanes_gather(l, e);

	if (ret || !l->n_in)
		return ret;
	ret = run_rows(l, e);
	if (!ret)
		ret = walk(l, e);
	return ret ? ret : keep(l, e);
}
