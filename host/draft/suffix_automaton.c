#include "host/draft/suffix_automaton.h"

#include "base/err.h"
#include "host/draft/suffix_edges.h"
#include "tensor/soc/price_host.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(
	SUFFIX_CHILDREN == SUFFIX_BEST, "a table caches SUFFIX_BEST children");

/*
 * All edges to a state have the same token, which is the last token of the
 * state's substrings. So the target state gives the token of an edge (label()),
 * and a state with a single edge stores only the edge's target.
 */
struct state {
	uint32_t len, link;
	uint32_t edges;
	/* SUFFIX_TEXT: index in `text` after the first occurrence of the
	 * state's substrings; SUFFIX_HISTORY: the last token of the state's
	 * substrings */
	uint32_t mark;
};

struct suffix_automaton {
	enum suffix_kind kind;
	struct search_work *work;
	struct state *state; /* [n] */
	uint32_t n, room;
	/* [n] only for SUFFIX_HISTORY: number of occurrences, valid after
	 * settle() */
	uint32_t *count;
	uint32_t count_room;
	int32_t *text; /* [tokens] for SUFFIX_TEXT only */
	uint32_t text_room;
	uint32_t tokens;
	struct suffix_edges edges;
	uint32_t last; /* state of the whole sequence that is being added */
	/* [n_ends] only for SUFFIX_HISTORY: the states of those prefixes of the
	 * current sequence whose occurrences are not yet counted */
	uint32_t *end;
	uint32_t n_ends, end_room;
};

/* ---- edges of states ----------------------------------------------------- */

/* The last token of a state's substrings, which is the token of every edge to
 * the state. */
static int32_t label(const struct suffix_automaton *a, uint32_t state)
{
	uint32_t mark = a->state[state].mark;

	a->work->steps += a->kind == SUFFIX_TEXT ? 2 : 1;
	return a->kind == SUFFIX_TEXT ? a->text[mark - 1] : (int32_t)mark;
}

/* The target of the state's edge with token `token`, or 0 if the state has no
 * such edge. */
static uint32_t target_of(
	const struct suffix_automaton *a, uint32_t state, int32_t token)
{
	uint32_t edges = a->state[state].edges;
	const struct suffix_edge *edge;

	a->work->steps++;
	if (!edges)
		return 0;
	if (suffix_edges_single(edges))
		return label(a, edges) == token ? edges : 0;
	a->work->steps++;
	edge = suffix_edges_find(&a->edges, edges, token);
	return edge ? edge->target : 0;
}

/* ---- adding -------------------------------------------------------------- */

static int add_state(struct suffix_automaton *a, struct state s, uint32_t *out,
	struct err *e)
{
	int ret = suffix_reserve((void **)&a->state, &a->room,
		(uint64_t)a->n + 1, sizeof(*a->state), e);

	if (!ret && a->kind == SUFFIX_HISTORY)
		ret = suffix_reserve((void **)&a->count, &a->count_room,
			(uint64_t)a->n + 1, sizeof(*a->count), e);
	if (ret)
		return ret;
	if (a->count)
		a->count[a->n] = 0;
	a->state[a->n] = s;
	*out = a->n++;
	return 0;
}

/* Append `token` to the longest substring of state `from`, and set *out to the
 * state of the resulting substring: the target of the edge by `token`, or a
 * clone split off from this target. */
static int reach(struct suffix_automaton *a, uint32_t from, int32_t token,
	uint32_t *out, struct err *e)
{
	uint32_t target = target_of(a, from, token), at = from, clone;
	struct state s;
	int ret;

	*out = target;
	if (a->state[target].len == a->state[from].len + 1)
		return 0;

	/*
	 * The target also has longer substrings than the resulting substring.
	 * Split off the resulting substring and its suffixes into a clone with
	 * the target's count.
	 */
	s = a->state[target];
	s.len = a->state[from].len + 1;
	ret = suffix_edges_copy(&a->edges, s.edges, &s.edges, e);
	if (!ret)
		ret = add_state(a, s, &clone, e);
	if (ret)
		return ret;
	if (a->count)
		a->count[clone] = a->count[target];
	while (target_of(a, at, token) == target) {
		uint32_t *edges = &a->state[at].edges;

		if (suffix_edges_single(*edges))
			*edges = clone;
		else
			suffix_edges_find(&a->edges, *edges, token)->target =
				clone;
		if (at == SUFFIX_ROOT)
			break;
		at = a->state[at].link;
	}
	a->state[target].link = clone;
	*out = clone;
	return 0;
}

static int append(struct suffix_automaton *a, int32_t token, struct err *e)
{
	uint32_t mark = a->kind == SUFFIX_TEXT ? a->tokens : (uint32_t)token;
	struct state s = { .len = a->state[a->last].len + 1, .mark = mark };
	uint32_t new, at = a->last, link = SUFFIX_ROOT;
	int ret;

	/* The state of the whole sequence already has an edge by this token if
	 * the sequence up to this token occurs in an earlier sequence of the
	 * history. */
	if (target_of(a, a->last, token))
		return reach(a, a->last, token, &a->last, e);
	ret = add_state(a, s, &new, e);
	/* Follow the suffix links from the state of the whole sequence, and add
	 * an edge by the new token to each state, until a state already has
	 * such an edge. The target of that edge, or a clone of the target,
	 * becomes the new state's suffix link. */
	while (!ret) {
		uint32_t *edges = &a->state[at].edges;
		int32_t of = 0;

		if (target_of(a, at, token)) {
			ret = reach(a, at, token, &link, e);
			break;
		}
		if (*edges && suffix_edges_single(*edges))
			of = label(a, *edges);
		ret = suffix_edges_add(&a->edges, edges, of,
			(struct suffix_edge){ token, new }, e);
		if (at == SUFFIX_ROOT)
			break;
		at = a->state[at].link;
	}
	if (ret)
		return ret;
	a->state[new].link = link;
	a->last = new;
	return 0;
}

/* ---- counts -------------------------------------------------------------- */

/*
 * Wherever the substrings of a state end, the substrings of the state to which
 * its suffix link leads end, too. So each new prefix of a sequence adds one
 * occurrence to its own state and to every state on the chain of suffix links
 * from there. settle() visits each of these states once, states with longer
 * substrings first, and adds the state's new occurrences to those of the state
 * to which its suffix link leads.
 */
struct touched {
	uint32_t state, count; /* count before settle() */
	uint32_t more;
	/* index of the next element whose state has the same length; 0 for the
	 * last such element */
	uint32_t next;
};

struct settling {
	struct touched *touched; /* [n], indices from 1 on */
	uint32_t n, room;
	/* [longest + 1] first[len] is the index of the first element whose
	 * state has the length len, or 0 */
	uint32_t *first;
};

/* If this bit is set in a state's `count`, the state is in `touched`; the other
 * bits are then the state's index in `touched`. */
#define TOUCHED 0x80000000u

static int touch(struct suffix_automaton *a, struct settling *s, uint32_t state,
	struct err *e)
{
	while (state && !(a->count[state] & TOUCHED)) {
		/* count two steps (loads whose address the previous load gave):
		 * one here, and one when the state's new occurrences are added
		 * to those of the state to which its suffix link leads */
		a->work->steps += 2;
		uint32_t *first = &s->first[a->state[state].len];
		int ret = suffix_reserve((void **)&s->touched, &s->room,
			(uint64_t)s->n + 2, sizeof(*s->touched), e);

		if (ret)
			return ret;
		s->touched[++s->n] = (struct touched){
			.state = state, .count = a->count[state], .next = *first
		};
		*first = s->n;
		a->count[state] = TOUCHED | s->n;
		state = a->state[state].link;
	}
	return 0;
}

static struct touched *touched_of(const struct suffix_automaton *a,
	const struct settling *s, uint32_t state)
{
	return &s->touched[a->count[state] & ~TOUCHED];
}

static int settle(struct suffix_automaton *a, struct err *e)
{
	uint32_t longest = a->state[a->last].len;
	struct settling s = { 0 };
	int ret = 0;

	s.first = calloc((size_t)longest + 1, sizeof(*s.first));
	if (!s.first)
		return err_set(
			e, ENOMEM, "no memory to count %u tokens", a->n_ends);
	for (uint32_t i = 0; i < a->n_ends && !ret; i++)
		ret = touch(a, &s, a->end[i], e);
	if (!ret) {
		for (uint32_t i = 0; i < a->n_ends; i++)
			touched_of(a, &s, a->end[i])->more++;
		for (uint32_t len = longest; len; len--)
			for (uint32_t i = s.first[len]; i;
				i = s.touched[i].next) {
				uint32_t link =
					a->state[s.touched[i].state].link;

				if (link)
					touched_of(a, &s, link)->more +=
						s.touched[i].more;
			}
	}
	for (uint32_t i = 1; i <= s.n; i++)
		a->count[s.touched[i].state] =
			s.touched[i].count + s.touched[i].more;
	a->count[SUFFIX_ROOT] = a->tokens;
	a->n_ends = 0;
	free(s.first);
	free(s.touched);
	return ret;
}

/* ---- adding sequences ---------------------------------------------------- */

int suffix_automaton_add(struct suffix_automaton *a, const int32_t *token,
	size_t n, struct err *e)
{
	int ret = 0;

	if (a->kind == SUFFIX_HISTORY)
		a->last = SUFFIX_ROOT;
	for (size_t i = 0; i < n && !ret; i++) {
		assert(token[i] >= 0);
		if (a->kind == SUFFIX_TEXT) {
			ret = suffix_reserve((void **)&a->text, &a->text_room,
				(uint64_t)a->tokens + 1, sizeof(*a->text), e);
			if (ret)
				break;
			a->text[a->tokens++] = token[i];
			ret = append(a, token[i], e);
			continue;
		}
		ret = suffix_reserve((void **)&a->end, &a->end_room,
			(uint64_t)a->n_ends + 1, sizeof(*a->end), e);
		if (!ret)
			ret = append(a, token[i], e);
		if (ret)
			break;
		a->tokens++;
		a->end[a->n_ends++] = a->last;
		/* Update the counts often enough that a long sequence leaves
		 * few prefixes uncounted, but not so often that the updates
		 * become expensive. */
		if (a->n_ends > 256 && a->n_ends > a->tokens / 8)
			ret = settle(a, e);
	}
	if (!ret && a->n_ends)
		ret = settle(a, e);
	return ret;
}

/* ---- opening ------------------------------------------------------------- */

int suffix_automaton_open(struct suffix_automaton **out, enum suffix_kind kind,
	struct search_work *work, struct err *e)
{
	struct suffix_automaton *a = calloc(1, sizeof(*a));
	uint32_t root;
	int ret = -ENOMEM;

	if (a) {
		a->kind = kind;
		a->work = work;
		ret = add_state(a, (struct state){ 0 }, &root, e);
	}
	if (ret) {
		suffix_automaton_close(a);
		return err_set(e, ENOMEM, "no memory for a suffix automaton");
	}
	*out = a;
	return 0;
}

void suffix_automaton_set_work(
	struct suffix_automaton *a, struct search_work *work)
{
	a->work = work;
}

void suffix_automaton_close(struct suffix_automaton *a)
{
	if (!a)
		return;
	suffix_edges_release(&a->edges);
	free(a->state);
	free(a->count);
	free(a->text);
	free(a->end);
	free(a);
}

void suffix_automaton_clear(struct suffix_automaton *a)
{
	suffix_edges_release(&a->edges);
	a->state[SUFFIX_ROOT] = (struct state){ 0 };
	a->n = 1;
	a->tokens = a->last = a->n_ends = 0;
	if (a->count)
		a->count[SUFFIX_ROOT] = 0;
}

/* ---- looking up ---------------------------------------------------------- */

uint32_t suffix_automaton_tokens(const struct suffix_automaton *a)
{
	return a->tokens;
}

uint32_t suffix_automaton_states(const struct suffix_automaton *a)
{
	return a->n;
}

size_t suffix_automaton_bytes(const struct suffix_automaton *a)
{
	return sizeof(*a) + a->room * sizeof(*a->state) +
		a->count_room * sizeof(*a->count) +
		a->text_room * sizeof(*a->text) +
		a->end_room * sizeof(*a->end) + suffix_edges_bytes(&a->edges);
}

void suffix_automaton_follow(
	const struct suffix_automaton *a, struct suffix_match *m, int32_t token)
{
	uint32_t to = target_of(a, m->state, token);

	while (!to && m->state) {
		m->state = a->state[m->state].link;
		m->len = a->state[m->state].len;
		to = target_of(a, m->state, token);
	}
	if (!to)
		return;
	m->state = to;
	m->len++;
}

struct suffix_match suffix_automaton_end(const struct suffix_automaton *a)
{
	return suffix_automaton_shorter(
		a, (struct suffix_match){ .state = a->last });
}

struct suffix_match suffix_automaton_shorter(
	const struct suffix_automaton *a, struct suffix_match m)
{
	uint32_t link = a->state[m.state].link;

	return (struct suffix_match){ link, a->state[link].len };
}

uint32_t suffix_automaton_first(
	const struct suffix_automaton *a, uint32_t state)
{
	assert(a->kind == SUFFIX_TEXT);
	return a->state[state].mark;
}

const int32_t *suffix_automaton_text(const struct suffix_automaton *a)
{
	return a->text;
}

uint32_t suffix_automaton_count(
	const struct suffix_automaton *a, uint32_t state)
{
	assert(a->kind == SUFFIX_HISTORY);
	return a->count[state];
}

/* ---- children ------------------------------------------------------------ */

static bool better(const struct suffix_automaton *a, struct suffix_edge x,
	struct suffix_edge y)
{
	uint32_t i = x.target, j = y.target;

	if (a->kind == SUFFIX_TEXT)
		return a->state[i].mark < a->state[j].mark;
	return a->count[i] > a->count[j] ||
		(a->count[i] == a->count[j] && x.token < y.token);
}

static uint32_t find_best(const struct suffix_automaton *a,
	const struct suffix_edge *edge, uint32_t room, struct suffix_edge *best)
{
	uint32_t n = 0, at;

	for (uint32_t i = 0; i < room; i++) {
		if (!edge[i].target)
			continue;
		a->work->steps++;
		if (n < SUFFIX_BEST)
			at = n++;
		else if (better(a, edge[i], best[n - 1]))
			at = n - 1;
		else
			continue;
		for (; at && better(a, edge[i], best[at - 1]); at--)
			best[at] = best[at - 1];
		best[at] = edge[i];
	}
	return n;
}

/*
 * For states with many children, the best children are computed once and
 * cached. The cache is valid until the state's count changes (SUFFIX_HISTORY: a
 * child's count changes only together with its parent's) or until a child is
 * added (SUFFIX_TEXT).
 */
static const struct suffix_best *kept_best(const struct suffix_automaton *a,
	struct suffix_table *table, uint32_t state)
{
	uint32_t at = a->kind == SUFFIX_TEXT ? table->used : a->count[state];

	if (!table->best)
		table->best = calloc(1, sizeof(*table->best));
	if (!table->best)
		return NULL;
	if (!table->best->n || table->best->at != at) {
		table->best->n = find_best(
			a, table->edge, table->room, table->best->edge);
		table->best->at = at;
	}
	return table->best;
}

uint32_t suffix_automaton_children(struct suffix_automaton *a, uint32_t state,
	struct suffix_child *out, uint32_t most)
{
	uint32_t edges = a->state[state].edges, n = 1, room;
	struct suffix_edge found[SUFFIX_BEST], *edge;
	const struct suffix_edge *best = found;
	const struct suffix_best *kept;
	struct suffix_table *table;

	a->work->steps++;
	if (!edges)
		return 0;
	if (suffix_edges_single(edges)) {
		found[0] = (struct suffix_edge){ label(a, edges), edges };
	} else {
		edge = suffix_edges_of(&a->edges, edges, &room, &table);
		kept = table ? kept_best(a, table, state) : NULL;
		best = kept ? kept->edge : found;
		n = kept ? kept->n : find_best(a, edge, room, found);
	}
	n = n < most ? n : most;
	for (uint32_t i = 0; i < n; i++)
		out[i] = (struct suffix_child){ best[i].token, best[i].target };
	return n;
}
