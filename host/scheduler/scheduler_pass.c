/* Runs a pass of the scheduler's lanes (requests or samples that are being
 * decoded): chooses the rows, computes their logits, walks down each lane's
 * token tree, and keeps the accepted tokens. */
#include "host/scheduler/scheduler.h"

#include "base/clock.h"
#include "host/scheduler/cycle.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <string.h>

/* ---- choosing the rows --------------------------------------------------- */

/*
 * Add the rows of lane in[i]. The rows form a tree, or a chain if `parent` is
 * NULL. Rows whose position is in the prompt are marked as prompt rows. Returns
 * the number of rows.
 */
static uint32_t put(struct scheduler *l, uint32_t i, const int32_t *token,
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

/* Add at most `most` rows: for the lane's next uncached tokens and, if there is
 * room for all of them, for the lane's last token. */
static uint32_t put_unread(struct scheduler *l, uint32_t i, uint32_t most)
{
	uint32_t want = l->unread[i] + 1;
	size_t n;
	const int32_t *token = gen_tokens(l->in[i]->gen, &n);

	return put(l, i, token + session_length(l->session, l->in[i]->sequence),
		NULL, want < most ? want : most);
}

/*
 * Add the rows of all lanes; the decoding lanes come first. The lanes that read
 * their prompts get the remaining rows: the first of these lanes gets as many
 * rows as it needs, then the next lane, so that the first prompt is complete as
 * early as possible.
 */
static void put_all(struct scheduler *l)
{
	uint32_t most = session_max_rows(l->session);

	l->n_rows = 0;
	for (uint32_t i = 0; i < l->n_in; i++) {
		const struct cycle *c = l->cycle[i];

		l->first[i] = l->n_rows;
		l->got[i] = 0;
		if (!l->unread[i])
			l->got[i] = c ? put(l, i, c->tree->token,
						c->tree->parent, c->tree->n)
				      : put_unread(l, i, 1);
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

/* ---- running the pass ---------------------------------------------------- */

/* The session calls this function at the exit layer, after which rows may be
 * pruned (exit_head.h): choose the rows that the later layers compute. A lane
 * whose method does not prune keeps all its rows. */
static int choose(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	struct scheduler *l = arg;

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

static int meanwhile(void *arg, struct err *e)
{
	struct scheduler *l = arg;
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in && !ret; i++)
		if (l->cycle[i])
			ret = cycle_meanwhile(l->cycle[i], e);
	return ret;
}

void scheduler_report_pass(const struct scheduler *l, uint64_t began_ns)
{
	uint32_t left = l->n_rows;

	for (uint32_t i = 0; i < l->n_in; i++) {
		struct lane *x = l->in[i];

		left -= l->got[i];
		if (l->got[i] && x->ops->computed)
			x->ops->computed(
				x, l->first[i], l->got[i], began_ns, !left);
	}
}

/* Run a pass over the rows of all lanes, with the hooks that the method needs.
 */
static int run_pass(struct scheduler *l, struct err *e)
{
	const struct rows rows = { VISIBILITY_TREE, l->n_rows, l->row };
	struct session_hooks hooks = { .arg = l };
	uint64_t began_ns = clock_ns();
	uint64_t device_ns = session_device_ns(l->session);
	/* start of the pass on the clock that also measures drafting
	 * (cycle_now) */
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
		if (l->env->method->meanwhile)
			hooks.meanwhile = meanwhile;
	}
	ret = session_forward(l->session, &rows, &hooks, e);
	l->device_ns = session_device_ns(l->session) - device_ns;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->cycle[i])
			cycle_end_pass(
				l->cycle[i], began, l->device_ns, l->n_rows);
	if (ret)
		return ret;
	l->stats.passes++;
	l->stats.rows += l->n_rows;
	scheduler_report_pass(l, began_ns);
	return 0;
}

/* ---- computing logits ---------------------------------------------------- */

/*
 * A group of lanes (sequences of the batch) whose walks down their draft trees
 * advance together: one product with the output matrix (a sweep) computes the
 * logits of the rows that these walks have reached.
 */
struct group {
	/* [n] the lanes, as indices of scheduler.in */
	uint32_t lane[LOGITS_ROWS];
	uint32_t n;
};

static uint32_t node_of(const struct scheduler *l, uint32_t i)
{
	return (uint32_t)l->at[i] - l->first[i];
}

static void set_logits(
	struct scheduler *l, uint32_t i, uint32_t row, const float *logits)
{
	if (l->cycle[i])
		cycle_set_logits(l->cycle[i], row - l->first[i], logits);
	else
		l->known[i] = logits;
}

/*
 * Compute the logits of the rows that the walks of the group's lanes have
 * reached, in one product with the output matrix. The product also includes
 * rows that the walks will probably reach later, but at most logits_rows rows
 * in all.
 */
static int compute_some(
	struct scheduler *l, const struct group *g, struct err *e)
{
	/* lane[k], an index of l->in, is the lane of row[k] */
	uint32_t row[LOGITS_ROWS], lane[LOGITS_ROWS], n = 0;
	float *out[LOGITS_ROWS];
	uint32_t most =
		l->logits_rows < LOGITS_ROWS ? l->logits_rows : LOGITS_ROWS;
	uint32_t each = most / g->n;
	int ret;

	for (uint32_t k = 0; k < g->n; k++) {
		uint32_t i = g->lane[k], node[LOGITS_ROWS] = { 0 }, nodes = 1;
		struct cycle *c = l->cycle[i];

		if (c) {
			memset(c->known, 0, c->rows * sizeof(*c->known));
			nodes = cycle_likely(c, node_of(l, i), each, node);
		}
		for (uint32_t u = 0; u < nodes; u++) {
			row[n] = c ? l->first[i] + node[u] : (uint32_t)l->at[i];
			lane[n] = i;
			out[n] = l->logits + (size_t)n * l->n_vocab;
			n++;
		}
	}
	ret = session_logits_ahead(l->session, row, n, out, e);
	for (uint32_t k = 0; k < n && !ret; k++)
		set_logits(l, lane[k], row[k], out[k]);
	if (ret != -EPROTO)
		return ret;

	/* At least one row is unusable: compute the logits row by row. The lane
	 * of an unusable row fails, and the other lanes continue. */
	for (uint32_t k = 0; k < g->n; k++) {
		uint32_t i = g->lane[k], at = (uint32_t)l->at[i];

		out[0] = l->logits + (size_t)k * l->n_vocab;
		ret = session_logits_ahead(l->session, &at, 1, out, e);
		if (ret && ret != -EPROTO)
			return ret;
		if (!ret) {
			set_logits(l, i, at, out[0]);
			continue;
		}
		l->at[i] = -1;
		if (!lane_is_over(l->in[i]))
			l->in[i]->ops->fail(l->in[i], e);
	}
	return 0;
}

/* ---- the walk down the trees --------------------------------------------- */

/* Let lane in[i] draw a token from the row that its walk down the tree has
 * reached. The walk moves to the row of that token, or ends if the pass
 * computed no such row. */
static void step(struct scheduler *l, uint32_t i, const float *logits)
{
	uint32_t row = (uint32_t)l->at[i], node = node_of(l, i);
	struct cycle *c = l->cycle[i];
	struct lane *x = l->in[i];
	int32_t child = -1;

	if (lane_is_over(x)) {
		l->at[i] = -1;
		return;
	}
	if (!l->unread[i])
		l->path[l->first[i] + l->n_path[i]++] = row;
	if (c)
		c->path[c->n_path++] = node;
	if (x->ops->row_done)
		x->ops->row_done(x, row);
	if (!lane_is_over(x))
		x->ops->draw(x, logits);
	if (c && lane_is_active(x) && !gen_done(x->gen)) {
		size_t n;
		const int32_t *token = gen_tokens(x->gen, &n);

		child = cycle_child(c, node, token[n - 1]);
	}
	l->at[i] = child < 0 ? -1 : (int64_t)l->first[i] + child;
}

/*
 * Advance the walk of each lane of the group as far as logits are known.
 * Afterwards the group holds only the lanes whose walks need more logits. A
 * lane that is `closing` (struct lane) and whose generation is done needs no
 * logits.
 */
static void draw_known(struct scheduler *l, struct group *g)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < g->n; k++) {
		uint32_t i = g->lane[k];
		const float *logits;

		if (l->at[i] >= 0 && l->in[i]->closing &&
			gen_done(l->in[i]->gen))
			step(l, i, NULL);
		while (l->at[i] >= 0) {
			logits = l->cycle[i] ? l->cycle[i]->known[node_of(l, i)]
					     : l->known[i];
			if (!logits)
				break;
			session_logits_used(l->session, logits);
			step(l, i, logits);
		}
		if (l->at[i] >= 0)
			g->lane[n++] = i;
	}
	g->n = n;
}

/*
 * Walk down the tree of each lane until the lane draws a token that was not
 * drafted.
 */
static int walk(struct scheduler *l, struct err *e)
{
	struct group g;
	bool predict = false;
	int ret = 0;

	memset(l->known, 0, sizeof(l->known));
	/*
	 * The walk of a decoding lane starts at the lane's first row. A
	 * prefilling lane keeps all its rows in the cache, and draws a token
	 * only if the lane's last token is among these rows.
	 */
	for (uint32_t i = 0; i < l->n_in; i++) {
		uint32_t read = l->unread[i] ? l->got[i] : 0;

		for (uint32_t k = 0; k < read; k++)
			l->path[l->first[i] + k] = l->first[i] + k;
		l->n_path[i] = read;
		l->at[i] = l->first[i];
		if (l->unread[i])
			l->at[i] = read > l->unread[i]
				? (int64_t)l->first[i] + read - 1
				: -1;
	}
	/* A drafter with the operation `verified` uses the device's
	 * predictions: the tokens that are likely to follow each row of the
	 * pass. */
	if (l->speculation && l->env->drafter->verified)
		for (uint32_t i = 0; i < l->n_in; i++)
			predict |= l->cycle[i] != NULL;
	if (predict)
		ret = session_predict(l->session, e);
	for (uint32_t i = 0; i < l->n_in && predict && !ret; i++)
		if (l->cycle[i])
			cycle_verified(l->cycle[i], l->first[i], l->got[i]);
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

/* ---- scheduler_step ------------------------------------------------------ */

int scheduler_step(struct scheduler *l, struct err *e)
{
	struct method_stats *stats = &l->env->stats;
	bool drafts = false;
	uint64_t ns, ps;
	int ret = scheduler_gather(l, e);

	if (ret || !l->n_in)
		return ret;
	if (l->env->method->denoise)
		return scheduler_denoise(l, e);
	memset(l->cycle, 0, sizeof(l->cycle));
	ret = l->speculation ? speculation_plan(l, e) : 0;
	if (ret)
		return ret;
	ns = clock_ns();
	ps = session_phone_ps(l->session);
	for (;;) {
		put_all(l);
		ret = run_pass(l, e);
		/* The cache is too fragmented: the lanes attend to more ranges
		 * of slots than a pass can describe. Retry without trees, and
		 * with one lane less each time. */
		if (ret != -ENOSPC || l->n_in == 1)
			break;
		memset(l->cycle, 0, sizeof(l->cycle));
		scheduler_pause_one(l);
	}
	if (!ret)
		ret = walk(l, e);
	for (uint32_t i = 0; i < l->n_in && !ret; i++)
		if (!lane_is_over(l->in[i]))
			ret = session_accept(l->session, l->in[i]->sequence,
				l->path + l->first[i], l->n_path[i], e);
	for (uint32_t i = 0; i < l->n_in; i++)
		drafts |= l->cycle[i] != NULL;
	if (drafts) {
		stats->verify_ns += clock_ns() - ns;
		stats->verify_ps += session_phone_ps(l->session) - ps;
	}
	if (ret)
		return ret;
	/* Pass the results to the cost model, the drafters, the methods and the
	 * owners of the lanes. */
	if (l->speculation)
		row_budget_learn(&l->share, l);
	for (uint32_t i = 0; i < l->n_in; i++) {
		struct lane *x = l->in[i];
		struct cycle *c = l->cycle[i];

		x->drafted += c ? c->verified - 1 : 0;
		x->accepted += c && c->n_path ? c->n_path - 1 : 0;
		if (c && c->n_path)
			cycle_learn(c);
		if (x->ops->passed && !lane_is_over(x))
			x->ops->passed(x);
	}
	return 0;
}
