/*
 * A pass of lanes: their rows, the walk down their trees, and what of it is
 * kept.
 */
#include "host/method/lanes.h"

#include "base/clock.h"
#include "host/method/cycle.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <string.h>

/* ---- rows ---------------------------------------------------------------- */

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

/* The rows of its tree, or its last token alone. */
static uint32_t put_rows(struct lanes *l, uint32_t i)
{
	const struct cycle *c = l->cycle[i];

	return c ? put(l, i, c->tree->token, c->tree->parent, c->tree->n)
		 : put_unread(l, i, 1);
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

/* ---- the pass ------------------------------------------------------------ */

/* Behind the exit: a lane whose method does not choose keeps all its rows. */
static int choose(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	struct lanes *l = arg;

	*n = 0;
	for (uint32_t i = 0; i < l->n_in; i++) {
		struct cycle *c = l->cycle[i];
		uint32_t rows = l->got[i];

		for (uint32_t k = 0; k < rows; k++)
			keep[*n + k] = k;
		if (c && c->exit)
			rows = cycle_choose(c, keep + *n);
		for (uint32_t k = 0; k < rows; k++)
			keep[(*n)++] += l->first[i];
	}
	return 0;
}

static int beside(void *arg, struct err *e)
{
	struct lanes *l = arg;
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in && !ret; i++)
		if (l->cycle[i])
			ret = cycle_beside(l->cycle[i], e);
	return ret;
}

void lanes_report_pass(const struct lanes *l, uint64_t began_ns)
{
	uint32_t left = l->n_rows;

	for (uint32_t i = 0; i < l->n_in; i++) {
		struct lane *x = l->in[i];

		left -= l->got[i];
		if (l->got[i] && x->owner->computed)
			x->owner->computed(
				x, l->first[i], l->got[i], began_ns, !left);
	}
}

/* The pass over the rows that there are now. */
static int run_rows(struct lanes *l, struct err *e)
{
	const struct rows rows = { VISIBILITY_TREE, l->n_rows, l->row };
	struct session_hooks hooks = { .arg = l };
	uint64_t began_ns = clock_ns(), device = session_device_ns(l->session);
	uint64_t began =
		l->env->phone ? session_phone_ps(l->session) : began_ns;
	int ret;

	for (uint32_t i = 0; i < l->n_in; i++) {
		struct cycle *c = l->cycle[i];

		if (!c)
			continue;
		cycle_begin_pass(c, l->first[i], began);
		if (c->exit)
			hooks.choose = choose;
		if (l->env->method->beside)
			hooks.meanwhile = beside;
	}
	ret = session_forward_with(l->session, &rows, &hooks, e);
	l->device_ns = session_device_ns(l->session) - device;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->cycle[i])
			cycle_end_pass(
				l->cycle[i], began, l->device_ns, l->n_rows);
	if (ret)
		return ret;
	l->stats.passes++;
	l->stats.rows += l->n_rows;
	lanes_report_pass(l, began_ns);
	return 0;
}

/* ---- logits -------------------------------------------------------------- */

/* Lanes that walk together: one sweep over the output matrix does the rows
 * where they stand. */
struct group {
	uint32_t lane[LOGITS_ROWS]; /* [n] as in l->in */
	uint32_t n;
};

static uint32_t node_of(const struct lanes *l, uint32_t i)
{
	return (uint32_t)l->at[i] - l->first[i];
}

static void show(struct lanes *l, uint32_t i, uint32_t row, const float *logits)
{
	if (l->cycle[i])
		cycle_show(l->cycle[i], row - l->first[i], logits);
	else
		l->known[i] = logits;
}

/* Whose row each is: of those in the pass. */
static int compute(struct lanes *l, const uint32_t *row, const uint32_t *whose,
	uint32_t n, struct err *e)
{
	float *out[WIRE_MAX_ROWS] = { NULL };
	int ret;

	for (uint32_t k = 0; k < n; k++)
		out[k] = l->logits + (size_t)k * l->n_vocab;
	ret = session_logits_ahead(l->session, row, n, out, e);
	for (uint32_t k = 0; k < n && !ret; k++)
		show(l, whose[k], row[k], out[k]);
	return ret;
}

/* Of all rows that went all the way, for a drafter that learns from them. A row
 * that is spoilt may be one that no text comes to: the walk finds out. */
static int compute_all(struct lanes *l, struct err *e)
{
	uint32_t row[WIRE_MAX_ROWS], whose[WIRE_MAX_ROWS], n = 0;
	int ret;

	for (uint32_t i = 0; i < l->n_in; i++)
		for (uint32_t k = 0; l->cycle[i] && k < l->got[i]; k++)
			if (session_hidden(l->session, l->first[i] + k)) {
				row[n] = l->first[i] + k;
				whose[n++] = i;
			}
	ret = n ? compute(l, row, whose, n, e) : 0;
	return ret == -EPROTO ? 0 : ret;
}

/* One row is spoilt: its lane ends; the others are as good as ever. */
static int compute_one_by_one(
	struct lanes *l, const struct group *g, struct err *e)
{
	for (uint32_t k = 0; k < g->n; k++) {
		uint32_t i = g->lane[k], row = (uint32_t)l->at[i];
		float *out = l->logits + (size_t)k * l->n_vocab;
		int ret = session_logits_ahead(l->session, &row, 1, &out, e);

		if (ret && ret != -EPROTO)
			return ret;
		if (!ret) {
			show(l, i, row, out);
			continue;
		}
		l->at[i] = -1;
		if (!lane_is_over(l->in[i]))
			l->in[i]->owner->spoilt(l->in[i], e);
	}
	return 0;
}

/* Of the rows where lanes stand, and as far as one sweep has place for more of
 * rows that the lanes are likely to come to. */
static int compute_some(struct lanes *l, const struct group *g, struct err *e)
{
	uint32_t row[LOGITS_ROWS], whose[LOGITS_ROWS], n = 0;
	uint32_t most =
		l->logits_rows < LOGITS_ROWS ? l->logits_rows : LOGITS_ROWS;
	uint32_t each = most / g->n;
	int ret;

	for (uint32_t k = 0; k < g->n; k++) {
		uint32_t i = g->lane[k], node[LOGITS_ROWS] = { 0 }, nodes = 1;
		struct cycle *c = l->cycle[i];

		if (c) {
			cycle_forget_logits(c);
			nodes = cycle_likely(c, node_of(l, i), each, node);
		}
		for (uint32_t u = 0; u < nodes; u++) {
			row[n] = c ? l->first[i] + node[u] : (uint32_t)l->at[i];
			whose[n++] = i;
		}
	}
	ret = compute(l, row, whose, n, e);
	return ret == -EPROTO ? compute_one_by_one(l, g, e) : ret;
}

/* ---- the walk ------------------------------------------------------------ */

static const float *known_of(const struct lanes *l, uint32_t i)
{
	return l->cycle[i] ? l->cycle[i]->known[node_of(l, i)] : l->known[i];
}

/* The row of the token that was drawn last, -1: it has none. */
static int64_t next_row(const struct lanes *l, uint32_t i)
{
	const struct lane *x = l->in[i];
	size_t n;
	const int32_t *token = gen_tokens(x->gen, &n);
	int32_t child = -1;

	if (l->cycle[i] && lane_goes_on(x) && !gen_done(x->gen))
		child = cycle_child(l->cycle[i], node_of(l, i), token[n - 1]);
	return child < 0 ? -1 : (int64_t)l->first[i] + child;
}

/* The i-th draws from the row where it stands, and goes on from there. */
static void step(struct lanes *l, uint32_t i, const float *logits)
{
	uint32_t row = (uint32_t)l->at[i];
	struct cycle *c = l->cycle[i];
	struct lane *x = l->in[i];

	if (lane_is_over(x)) {
		l->at[i] = -1;
		return;
	}
	if (!l->unread[i])
		l->path[l->first[i] + l->n_path[i]++] = row;
	if (c)
		c->path[c->n_path++] = node_of(l, i);
	if (x->owner->came)
		x->owner->came(x, row);
	if (!lane_is_over(x))
		x->owner->draw(x, logits);
	l->at[i] = next_row(l, i);
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

/* Lanes of the group that want logits which are not known; the others go on for
 * as long as theirs are. One that is closing and whose text is done wants
 * none. */
static void draw_known(struct lanes *l, struct group *g)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < g->n; k++) {
		uint32_t i = g->lane[k];
		const float *logits;

		if (l->at[i] >= 0 && l->in[i]->closing &&
			gen_done(l->in[i]->gen))
			step(l, i, NULL);
		while (l->at[i] >= 0 && (logits = known_of(l, i))) {
			session_logits_used(l->session, logits);
			step(l, i, logits);
		}
		if (l->at[i] >= 0)
			g->lane[n++] = i;
	}
	g->n = n;
}

/* Down the trees for as long as they were right. */
static int walk(struct lanes *l, struct err *e)
{
	bool all = l->speculation && l->env->drafter->all_rows;
	struct group g;
	int ret;

	memset(l->known, 0, sizeof(l->known));
	for (uint32_t i = 0; i < l->n_in; i++)
		begin_walk(l, i);
	ret = all ? compute_all(l, e) : 0;
	for (uint32_t i = 0; i < l->n_in && !ret; i += LOGITS_ROWS) {
		g.n = 0;
		while (g.n < LOGITS_ROWS && i + g.n < l->n_in) {
			g.lane[g.n] = i + g.n;
			g.n++;
		}
		draw_known(l, &g);
		while (g.n && !ret) {
			ret = compute_some(l, &g, e);
			if (!ret)
				draw_known(l, &g);
		}
	}
	return ret;
}

/* ---- what is kept -------------------------------------------------------- */

static int accept(struct lanes *l, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in && !ret; i++)
		if (!lane_is_over(l->in[i]))
			ret = session_accept(l->session, l->in[i]->sequence,
				l->path + l->first[i], l->n_path[i], e);
	return ret;
}

static void tell(struct lanes *l)
{
	for (uint32_t i = 0; i < l->n_in; i++) {
		struct lane *x = l->in[i];
		struct cycle *c = l->cycle[i];

		x->drafted += c ? c->verified - 1 : 0;
		x->accepted += c && c->n_path ? c->n_path - 1 : 0;
		if (c && c->n_path)
			cycle_took(c);
		if (x->owner->passed && !lane_is_over(x))
			x->owner->passed(x);
	}
}

static bool drafts(const struct lanes *l)
{
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->cycle[i])
			return true;
	return false;
}

int lanes_pass(struct lanes *l, struct err *e)
{
	struct method_stats *stats = &l->env->stats;
	uint64_t ns, ps;
	int ret = lanes_gather(l, e);

	if (ret || !l->n_in)
		return ret;
	if (l->env->method->denoise)
		return lanes_denoise(l, e);
	memset(l->cycle, 0, sizeof(l->cycle));
	ret = l->speculation ? speculation_plan(l, e) : 0;
	if (ret)
		return ret;
	ns = clock_ns();
	ps = session_phone_ps(l->session);
	put_all(l);
	ret = run_rows(l, e);
	/* There are more spans of slots to attend to than a pass can name: a
	 * lane less, and no trees. */
	while (ret == -ENOSPC && l->n_in > 1) {
		memset(l->cycle, 0, sizeof(l->cycle));
		lanes_pause_one(l);
		put_all(l);
		ret = run_rows(l, e);
	}
	if (!ret)
		ret = walk(l, e);
	if (!ret)
		ret = accept(l, e);
	if (drafts(l)) {
		stats->verify_ns += clock_ns() - ns;
		stats->verify_ps += session_phone_ps(l->session) - ps;
	}
	if (ret)
		return ret;
	if (l->speculation)
		speculation_saw(l);
	tell(l);
	return 0;
}
