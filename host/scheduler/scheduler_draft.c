/*
 * Speculative decoding with many lanes. A lane is a request or a sample that is
 * being decoded. While a lane is paused, its sequence in the session may be
 * removed because other lanes need its cache slots. Each lane has a drafter
 * that receives only the tokens of this lane. The trees of all lanes share the
 * rows of a pass. A lane's tokens do not depend on its tree: a better tree only
 * saves passes (host/scheduler/cycle.h).
 */
#include "host/scheduler/scheduler.h"

#include "base/err.h"
#include "host/draft/drafting.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/row_budget.h"
#include "host/scheduler/method.h"
#include "host/session/session.h"

#include <errno.h>
#include <stdlib.h>

/* What one lane needs to draft: a drafter, and a cycle (the state of drafting,
 * cycle.h). When the lane ends, another lane can use the same place. */
struct place {
	/* the drafters that were opened for this place; empty for the first
	 * place, which uses env->drafter */
	struct drafters own;
	struct cycle cycle;
	/* the lane that uses the place; NULL if the place is free */
	const struct lane *of;
};

struct speculation {
	uint32_t n;
	/* the n places; a place is opened when it is needed */
	struct place *place[ROWS_SEQUENCES];
};

/* ---- opening drafters ---------------------------------------------------- */

int speculation_open(struct scheduler *l, struct err *e)
{
	struct speculation *s = calloc(1, sizeof(*s));

	l->speculation = s;
	if (l->tree_rows > session_max_rows(l->session))
		l->tree_rows = session_max_rows(l->session);
	return s && !row_budget_open(&l->share, l)
		? 0
		: err_set(e, ENOMEM,
			  "no memory for the drafted trees of a pass");
}

static void close_place(struct place *at)
{
	cycle_close(&at->cycle);
	drafters_close(&at->own);
	free(at);
}

void speculation_close(struct scheduler *l)
{
	struct speculation *s = l->speculation;

	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		close_place(s->place[i]);
	free(l->share.merit);
	l->share.merit = NULL;
	free(s);
	l->speculation = NULL;
}

/*
 * The lane keeps its place if it has one. Otherwise it gets a free place, or
 * the place of a lane that is not in the pass, or a new place. So the number of
 * places never exceeds the largest number of lanes in a pass.
 */
int speculation_join(
	struct scheduler *l, struct lane *x, struct cycle **out, struct err *e)
{
	struct speculation *s = l->speculation;
	struct place *at = NULL;

	for (uint32_t i = 0; i < s->n && !(at && at->of == x); i++) {
		struct place *other = s->place[i];
		bool used = false;

		for (uint32_t k = 0; other->of && k < l->n_in && !used; k++)
			used = l->in[k] == other->of;
		if (other->of == x || (!used && (!at || !other->of)))
			at = other;
	}
	if (!at) {
		int ret = 0;

		at = calloc(1, sizeof(*at));
		if (!at)
			return err_set(e, ENOMEM, "no memory for a drafter");
		if (s->n)
			ret = drafting_open_more(l->env->drafting, &at->own, e);
		if (!ret)
			ret = cycle_open(&at->cycle, l->session, l->env,
				s->n ? &at->own.all : l->env->drafter,
				l->lane_rows, e);
		if (ret) {
			close_place(at);
			return ret;
		}
		s->place[s->n++] = at;
	}
	if (at->of != x)
		cycle_bind(&at->cycle, x->gen, x->sequence);
	/* If the lane was paused, its sequence may have been removed; then the
	 * lane has another sequence now. */
	at->cycle.sequence = x->sequence;
	at->of = x;
	*out = &at->cycle;
	return 0;
}

void speculation_leave(struct scheduler *l, const struct lane *x)
{
	for (uint32_t i = 0; l->speculation && i < l->speculation->n; i++)
		if (l->speculation->place[i]->of == x)
			l->speculation->place[i]->of = NULL;
}

/* ---- planning the trees of a pass ---------------------------------------- */

static bool has_room(const struct scheduler *l)
{
	uint32_t sequence[ROWS_SEQUENCES], rows[ROWS_SEQUENCES];

	for (uint32_t i = 0; i < l->n_in; i++) {
		sequence[i] = l->in[i]->sequence;
		rows[i] = l->cycle[i] ? l->cycle[i]->tree->n : l->unread[i] + 1;
	}
	return session_has_room(l->session, sequence, rows, l->n_in);
}

/*
 * Plan the trees of a pass. Each tree is planned as if its lane could use all
 * rows that the pass has for drafted tokens; then row_budget_cut makes the
 * trees smaller. While there are too few cache slots for all rows, one more
 * tree is reduced to its root, beginning with the first lane's tree. So no
 * draft takes the cache slot that another lane needs for its last token.
 */
int speculation_plan(struct scheduler *l, struct err *e)
{
	struct row_budget *s = &l->share;
	uint32_t most = row_budget_room(s, l), root = 0, n = 0;
	struct cycle *all[ROWS_SEQUENCES];
	int ret = 0;

	if (!most)
		return 0;
	for (uint32_t i = 0; i < l->n_in && !ret; i++) {
		struct cycle *c;

		if (l->unread[i])
			continue;
		ret = speculation_join(l, l->in[i], &c, e);
		if (ret)
			break;
		c->most = l->lane_rows < 1 + most ? l->lane_rows : 1 + most;
		c->drafts = !l->in[i]->closing;
		l->cycle[i] = all[n++] = c;
	}
	if (!ret)
		ret = cycle_plan(all, n, e);
	if (ret)
		return ret;
	row_budget_cut(s, l);
	for (uint32_t i = 0; i < l->n_in && !has_room(l); i++)
		if (l->cycle[i])
			tree_keep(l->cycle[i]->tree, &root, 1);
	return 0;
}
