/*
 * Speculation among lanes: each is drafted for by a drafter that is told of its
 * text alone, and the trees of all share the rows of a pass by merit. What a
 * tree is right about saves its lane passes; no text is another by it, as every
 * token is drawn from the target's logits by the lane's own random numbers
 * (host/method/cycle.h).
 */
#include "host/method/lanes.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/draft/drafting.h"
#include "host/method/method.h"
#include "host/method/tree_options.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/trace/trace.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Growth of the expected length that is worth one more layer. */
#define THRESHOLD 0.1

/* Who drafts for a lane in the pass, as long as it is in passes. */
struct place {
	struct drafters own; /* of the first: none, it has env's */
	const struct drafter *drafter;
	struct tree *tree;
	const struct lane *of;
};

/* A node that could have a row. */
struct merit {
	double path;
	uint32_t in, node;
};

struct speculation {
	uint32_t rows; /* of all trees */
	uint32_t n;
	struct place *place[ROWS_SEQUENCES]; /* [n], opened as they are used */
	struct place *at[ROWS_SEQUENCES];    /* of those in the pass */
	struct merit *merit;                 /* [ROWS_SEQUENCES * rows] */
	float *logits; /* [rows][n_vocab], of drafters that want all */
	bool read;     /* they are those of this pass */
};

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* ---- opening ------------------------------------------------------------- */

int speculation_open(struct lanes *l, struct err *e)
{
	struct speculation *s = calloc(1, sizeof(*s));
	size_t rows = least(l->tree_rows, session_max_rows(l->session));

	l->speculation = s;
	if (!s)
		return err_set(e, ENOMEM, "no memory for drafts");
	s->rows = least(rows, LANES_ROWS);
	s->merit = malloc(ROWS_SEQUENCES * s->rows * sizeof(*s->merit));
	if (l->env->drafter->all_rows)
		s->logits = malloc(
			(size_t)s->rows * l->n_vocab * sizeof(*s->logits));
	if (!s->merit || (l->env->drafter->all_rows && !s->logits))
		return err_set(e, ENOMEM, "no memory for the logits of %u rows",
			s->rows);
	return 0;
}

static void close_place(struct place *at)
{
	tree_close(at->tree);
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
	free(s->merit);
	free(s->logits);
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
	at->drafter = s->n ? &at->own.all : l->env->drafter;
	ret = s->n ? drafting_open_more(l->env->drafting, &at->own, e) : 0;
	if (!ret)
		ret = tree_open(&at->tree, s->rows,
			tree_options(l->env)->candidates, e);
	if (ret) {
		close_place(at);
		return ret;
	}
	s->place[s->n++] = *out = at;
	return 0;
}

/* Where a lane was before, or where none is that is in the pass. */
static struct place *find_place(const struct lanes *l, const struct lane *of)
{
	const struct speculation *s = l->speculation;
	struct place *free = NULL;

	for (uint32_t i = 0; i < s->n; i++) {
		bool used = false;

		if (s->place[i]->of == of)
			return s->place[i];
		for (uint32_t k = 0; k < l->n_in && !used; k++)
			used = l->in[k] == s->place[i]->of;
		if (!used)
			free = s->place[i];
	}
	return free;
}

static int take_place(struct lanes *l, uint32_t i, struct err *e)
{
	struct speculation *s = l->speculation;
	int ret = 0;

	s->at[i] = find_place(l, l->in[i]);
	if (!s->at[i])
		ret = open_place(l, &s->at[i], e);
	if (!ret)
		s->at[i]->of = l->in[i];
	return ret;
}

/* ---- drafting ------------------------------------------------------------ */

/* As if it had the pass for itself: the others' merit decides. */
static int grow(struct lanes *l, uint32_t i, struct err *e)
{
	struct place *at = l->speculation->at[i];
	const struct lane *s = l->in[i];
	uint32_t length = session_length(l->session, s->sequence);
	struct build_limits limits = {
		.rows = least(l->speculation->rows - l->n_in + 1,
			session_context(l->session) - length),
		/* The last of the tokens that may still come is the target's
		 * own. */
		.depth = s->closing
			? 0
			: least(tree_depth(l->env), gen_left(s->gen) - 1),
	};
	size_t n;
	const int32_t *text = gen_tokens(s->gen, &n);
	int ret;

	tree_reset(at->tree, text[n - 1]);
	if (!limits.depth || limits.rows < 2)
		return 0;
	ret = at->drafter->begin(at->drafter->arg, at->tree, text, n, e);
	return ret ? ret
		   : build_opt(at->tree, at->drafter, &limits, THRESHOLD, e);
}

static int by_merit(const void *a, const void *b)
{
	const struct merit *x = a, *y = b;

	if (x->path != y->path)
		return x->path > y->path ? -1 : 1;
	if (x->in != y->in)
		return x->in < y->in ? -1 : 1;
	return x->node < y->node ? -1 : 1;
}

static int rising(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The likeliest nodes of all trees stay. A parent is no less likely than its
 * child, and stands before it, so it stays with it. */
static void share(struct lanes *l)
{
	struct speculation *s = l->speculation;
	uint32_t n = 0, room = s->rows - l->n_in;

	for (uint32_t i = 0; i < l->n_in; i++)
		for (uint32_t u = 1; u < s->at[i]->tree->n; u++)
			s->merit[n++] =
				(struct merit){ s->at[i]->tree->path[u], i, u };
	if (n <= room)
		return;
	qsort(s->merit, n, sizeof(*s->merit), by_merit);
	for (uint32_t i = 0; i < l->n_in; i++) {
		uint32_t keep[LANES_ROWS] = { 0 }, kept = 1;

		for (uint32_t k = 0; k < room; k++)
			if (s->merit[k].in == i)
				keep[kept++] = s->merit[k].node;
		qsort(keep, kept, sizeof(*keep), rising);
		tree_keep(s->at[i]->tree, keep, kept);
	}
}

static bool has_room(const struct lanes *l)
{
	uint32_t sequence[ROWS_SEQUENCES], rows[ROWS_SEQUENCES];

	for (uint32_t i = 0; i < l->n_in; i++) {
		sequence[i] = l->in[i]->sequence;
		rows[i] = l->speculation->at[i]->tree->n;
	}
	return session_has_room(l->session, sequence, rows, l->n_in);
}

static void count_drafted(struct lanes *l, uint64_t ns, uint64_t ps)
{
	struct method_stats *st = &l->env->stats;
	struct price price = { 0 };

	for (uint32_t i = 0; i < l->n_in; i++) {
		const struct drafter *d = l->speculation->at[i]->drafter;

		if (d->price)
			d->price(d->arg, &price);
	}
	session_add_work_of(l->session, TRACE_PHONE_DRAFT, &price);
	st->draft_ns += clock_ns() - ns;
	st->draft_ps += session_phone_ps(l->session) - ps;
}

static int draft(struct lanes *l, struct err *e)
{
	uint64_t ns = clock_ns(), ps = session_phone_ps(l->session);
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in && !ret; i++) {
		ret = take_place(l, i, e);
		if (!ret)
			ret = grow(l, i, e);
	}
	if (ret)
		return ret;
	share(l);
	count_drafted(l, ns, ps);
	return 0;
}

int speculation_draft(struct lanes *l, struct err *e)
{
	int ret;

	trace_begin(session_trace(l->session), TRACE_DRAFT, 0, 0);
	ret = draft(l, e);
	trace_end(session_trace(l->session), TRACE_DRAFT);
	if (ret)
		return ret;
	/* What slots there are is for tokens that are certain. */
	if (!has_room(l))
		return 0;
	for (uint32_t i = 0; i < l->n_in; i++)
		l->tree[i] = l->speculation->at[i]->tree;
	return 0;
}

/* ---- what came of it ----------------------------------------------------- */

static void show(
	const struct lanes *l, uint32_t i, uint32_t row, const float *logits)
{
	const struct drafter *d = l->speculation->at[i]->drafter;

	if (d->computed && l->tree[i])
		d->computed(d->arg, l->tree[i], row - l->first[i], logits,
			l->n_vocab);
}

/* A row that is spoilt may be one that no text comes to: the walk finds out. */
int speculation_read(struct lanes *l, struct err *e)
{
	struct speculation *s = l->speculation;
	int ret;

	s->read = false;
	if (!s->logits)
		return 0;
	ret = session_logits_range(l->session, 0, l->n_rows, s->logits, e);
	s->read = !ret;
	for (uint32_t i = 0; i < l->n_in && !ret; i++)
		for (uint32_t u = 0; l->tree[i] && u < l->tree[i]->n; u++)
			show(l, i, l->first[i] + u,
				speculation_logits(l, l->first[i] + u));
	return ret == -EPROTO ? 0 : ret;
}

const float *speculation_logits(const struct lanes *l, uint32_t row)
{
	const struct speculation *s = l->speculation;

	return s->read ? s->logits + (size_t)row * l->n_vocab : NULL;
}

void speculation_passed(
	struct lanes *l, uint32_t i, uint32_t row, const float *logits)
{
	if (!l->speculation->read)
		show(l, i, row, logits);
}

void speculation_saw(struct lanes *l, uint32_t i)
{
	struct method_stats *st = &l->env->stats;
	const struct drafter *d = l->speculation->at[i]->drafter;
	const struct tree *t = l->tree[i];
	size_t n;
	const int32_t *text = gen_tokens(l->in[i]->gen, &n);

	st->cycles++;
	st->kept += t ? t->n : 1;
	st->leaves += t ? t->leaves : 1;
	if (t)
		method_count_draft(l->env, t->depth + 1, t->n - 1,
			l->n_path[i] ? l->n_path[i] - 1 : 0);
	if (t && d->saw && !lane_is_over(l->in[i]))
		d->saw(d->arg, text, n);
}
