/*
 * Speculation among lanes: each has a drafter that knows its text alone, and
 * the trees of all share the rows of a pass. What a tree is right about saves
 * its lane passes; no text is another by it (host/method/cycle.h).
 */
#include "host/method/lanes.h"

#include "base/err.h"
#include "host/draft/drafting.h"
#include "host/method/cycle.h"
#include "host/method/lanes_share.h"
#include "host/method/method.h"
#include "host/method/tree_options.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>

/* A draft and the lane that has it; lanes that are over leave theirs to the
 * next. */
struct place {
	struct drafters own; /* of the first: none, it has env's */
	struct cycle cycle;
	const struct lane *of; /* NULL: nobody */
};

struct speculation {
	uint32_t n;
	struct place *place[ROWS_SEQUENCES]; /* [n], opened as they are used */
	struct lanes_share share;
};

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- opening ------------------------------------------------------------- */

int speculation_open(struct lanes *l, struct err *e)
{
	struct speculation *s = calloc(1, sizeof(*s));

	l->speculation = s;
	l->tree_rows = least(l->tree_rows, session_max_rows(l->session));
	return s && !lanes_share_open(&s->share, l)
		? 0
		: err_set(e, ENOMEM, "no memory for drafts");
}

static void close_place(struct place *at)
{
	cycle_close(&at->cycle);
	drafters_close(&at->own);
	free(at);
}

void speculation_close(struct lanes *l)
{
	struct speculation *s = l->speculation;

	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		close_place(s->place[i]);
	lanes_share_close(&s->share);
	free(s);
	l->speculation = NULL;
}

static int open_place(struct lanes *l, struct place **out, struct err *e)
{
	struct speculation *s = l->speculation;
	struct place *at = calloc(1, sizeof(*at));
	int ret;

	if (!at)
		return err_set(e, ENOMEM, "no memory for a drafter");
	ret = s->n ? drafting_open_more(l->env->drafting, &at->own, e) : 0;
	if (!ret)
		ret = cycle_open(&at->cycle, l->session, l->env,
			s->n ? &at->own.all : l->env->drafter, l->lane_rows, e);
	if (ret) {
		close_place(at);
		return ret;
	}
	s->place[s->n++] = *out = at;
	return 0;
}

/* Of a lane that is not in the pass and was for longest, where there are as
 * many as a pass has lanes. */
static struct place *find_place(const struct lanes *l, const struct lane *of)
{
	const struct speculation *s = l->speculation;
	struct place *free = NULL;

	for (uint32_t i = 0; i < s->n; i++) {
		struct place *at = s->place[i];
		bool used = false;

		if (at->of == of)
			return at;
		for (uint32_t k = 0; at->of && k < l->n_in && !used; k++)
			used = l->in[k] == at->of;
		if (!used && (!free || !at->of))
			free = at;
	}
	return free;
}

int speculation_join(
	struct lanes *l, struct lane *x, struct cycle **out, struct err *e)
{
	struct place *at = find_place(l, x);
	int ret = at ? 0 : open_place(l, &at, e);

	if (ret)
		return ret;
	if (at->of != x)
		cycle_bind(&at->cycle, x->gen, x->sequence);
	at->cycle.sequence = x->sequence; /* it may have been forgotten */
	at->of = x;
	*out = &at->cycle;
	return 0;
}

void speculation_leave(struct lanes *l, const struct lane *x)
{
	for (uint32_t i = 0; l->speculation && i < l->speculation->n; i++)
		if (l->speculation->place[i]->of == x)
			l->speculation->place[i]->of = NULL;
}

/* ---- planning ------------------------------------------------------------ */

static bool has_room(const struct lanes *l)
{
	uint32_t sequence[ROWS_SEQUENCES], rows[ROWS_SEQUENCES];

	for (uint32_t i = 0; i < l->n_in; i++) {
		sequence[i] = l->in[i]->sequence;
		rows[i] = l->cycle[i] ? l->cycle[i]->tree->n : l->unread[i] + 1;
	}
	return session_has_room(l->session, sequence, rows, l->n_in);
}

/* Each tree as if its lane had the rows for itself: the others' merit decides.
 * What slots there are is for tokens that are certain. */
int speculation_plan(struct lanes *l, struct err *e)
{
	struct lanes_share *s = &l->speculation->share;
	uint32_t most = lanes_share_room(s, l), root = 0, n = 0;
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
		c->most = least(l->lane_rows, 1 + most);
		c->drafts = !l->in[i]->closing;
		l->cycle[i] = all[n++] = c;
	}
	if (!ret)
		ret = cycle_plan(all, n, e);
	if (ret)
		return ret;
	lanes_share_rows(s, l);
	for (uint32_t i = 0; i < l->n_in && !has_room(l); i++)
		if (l->cycle[i])
			tree_keep(l->cycle[i]->tree, &root, 1);
	return 0;
}

void speculation_saw(struct lanes *l)
{
	lanes_share_saw(&l->speculation->share, l);
}
