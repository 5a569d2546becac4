#include "base/err.h"
#include "host/draft/reliance.h"
#include "host/draft/source.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GUESSES 64 /* maximum number of guesses at a tree node */

struct retriever {
	struct source source;
	struct reliance reliance;
	int32_t *text; /* [n] the sequence of the last begin() call */
	size_t n, room;
	/* [n_places] the places (states of the source) of the tree's nodes;
	 * tree->row of a node is the index of its place. */
	struct source_place *place;
	uint32_t n_places, place_room;
};

/* ---- candidates ---------------------------------------------------------- */

/* Returns the probability that at least one of the guesses with guess i's token
 * is right, if the guesses are independent. Returns 0 if a guess before i has
 * the same token. */
static double pooled(const struct retriever *r,
	const struct source_guess *guess, uint32_t n, uint32_t i,
	uint32_t depth)
{
	double none = 1;

	for (uint32_t j = 0; j < n; j++) {
		struct grounds grounds;

		if (guess[j].token != guess[i].token)
			continue;
		if (j < i)
			return 0;
		grounds = (struct grounds){ guess[j].origin, guess[j].match,
			depth };
		none *= 1 -
			fmin((double)guess[j].share *
					reliance_of(&r->reliance, &grounds),
				1);
	}
	return 1 - none;
}

static bool before(struct candidate a, struct candidate b)
{
	return a.q > b.q || (a.q == b.q && a.token < b.token);
}

static void fill(struct retriever *r, struct tree *t, uint32_t node,
	const struct source_place *place)
{
	struct candidate *c = t->candidate + (size_t)node * t->k;
	struct source_guess guess[GUESSES];
	uint32_t n = r->source.guesses(r->source.arg, place, t->depth[node],
		guess, t->k == 1 ? 1 : GUESSES);
	uint32_t kept = 0;

	r->source.work->values += (uint64_t)n * n;
	for (uint32_t i = 0; i < n; i++) {
		double p = pooled(r, guess, n, i, t->depth[node]);
		const struct candidate new = { guess[i].token, (float)p,
			r->source.from[guess[i].origin] };
		uint32_t at = kept;

		/* Insert the candidate if it is among the best k candidates of
		 * the node. */
		if (p <= 0 || (kept == t->k && !before(new, c[kept - 1])))
			continue;
		if (kept < t->k)
			kept++;
		else
			at--;
		for (; at && before(new, c[at - 1]); at--)
			c[at] = c[at - 1];
		c[at] = new;
	}
	t->n_candidates[node] = kept;
}

/* ---- a tree -------------------------------------------------------------- */

static int add_place(struct retriever *r, uint32_t *at, struct err *e)
{
	if (r->n_places == r->place_room) {
		uint32_t room = r->place_room ? 2 * r->place_room : 64;
		struct source_place *more =
			realloc(r->place, room * sizeof(*more));

		if (!more)
			return err_set(
				e, ENOMEM, "no memory to draft from a text");
		r->place = more;
		r->place_room = room;
	}
	*at = r->n_places++;
	return 0;
}

static int expand(void *arg, struct tree *t, const uint32_t *node, uint32_t n,
	struct err *e)
{
	struct retriever *r = arg;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t u = node[i], above = t->row[t->parent[u]], at;
		int ret = add_place(r, &at, e);

		if (ret)
			return ret;
		r->place[at] = r->place[above];
		r->source.step(r->source.arg, &r->place[at], t->token[u]);
		t->row[u] = at;
		fill(r, t, u, &r->place[at]);
	}
	return 0;
}

static size_t common(const struct retriever *r, const int32_t *text, size_t n)
{
	size_t i = 0;

	while (i < r->n && i < n && r->text[i] == text[i])
		i++;
	r->source.work->values += i;
	return i;
}

static int begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	struct retriever *r = arg;
	uint32_t root;
	int ret = r->source.take(r->source.arg, text, n, common(r, text, n), e);

	tree_reset(t, text[n - 1]);
	r->n_places = 0;
	if (ret)
		return ret;

	if (n > r->room) {
		int32_t *more = realloc(r->text, 2 * n * sizeof(*more));

		if (!more)
			return err_set(
				e, ENOMEM, "no memory to draft from a text");
		r->text = more;
		r->room = 2 * n;
	}
	memcpy(r->text, text, n * sizeof(*text));
	r->n = n;
	ret = add_place(r, &root, e);
	if (ret)
		return ret;
	r->source.root(r->source.arg, &r->place[root]);
	fill(r, t, 0, &r->place[root]);
	return 0;
}

/* ---- learning ------------------------------------------------------------ */

/* Record the outcome of all guesses; guesses with the same evidence (origin and
 * match length) are recorded as one guess. Returns whether `token` was among
 * the guesses. */
static bool record_outcome(struct retriever *r,
	const struct source_guess *guess, uint32_t n, uint32_t depth,
	int32_t token)
{
	bool any = false;

	for (uint32_t i = 0; i < n; i++) {
		const struct grounds g = { guess[i].origin, guess[i].match,
			depth };
		double share = 0;
		bool came = false, first = true;

		for (uint32_t j = 0; j < n; j++) {
			if (guess[i].origin != guess[j].origin ||
				guess[i].match != guess[j].match)
				continue;
			first &= j >= i;
			share += (double)guess[j].share;
			came |= guess[j].token == token;
		}
		if (first)
			reliance_saw(&r->reliance, &g, share, came);
		any |= came;
	}
	return any;
}

/* Learn from the new tokens, one by one, up to and including the first token
 * that was not guessed. */
static void saw(void *arg, const int32_t *text, size_t n)
{
	struct retriever *r = arg;
	struct source_guess guess[GUESSES];
	struct source_place place;

	if (!r->n || n <= r->n || common(r, text, n) < r->n)
		return;
	r->source.root(r->source.arg, &place);
	for (size_t i = r->n; i < n; i++) {
		uint32_t depth = (uint32_t)(i - r->n);
		uint32_t known = r->source.guesses(
			r->source.arg, &place, depth, guess, GUESSES);

		if (!record_outcome(r, guess, known, depth, text[i]))
			break;
		r->source.step(r->source.arg, &place, text[i]);
	}
}

static void computed(void *arg, const struct tree *t, uint32_t node,
	const float *logits, uint32_t n_vocab)
{
	struct retriever *r = arg;

	r->source.computed(r->source.arg, t, node, logits, n_vocab);
}

static void verified(void *arg, const struct tree *t, uint32_t node,
	const struct candidate *c, uint32_t n)
{
	struct retriever *r = arg;

	r->source.verified(r->source.arg, t, node, c, n);
}

static bool wants(void *arg, const int32_t *prompt, size_t n, size_t at)
{
	struct retriever *r = arg;

	return r->source.wants(r->source.arg, prompt, n, at);
}

static void predicted(
	void *arg, size_t at, const struct candidate *c, uint32_t n)
{
	struct retriever *r = arg;

	r->source.predicted(r->source.arg, at, c, n);
}

static void searched(void *arg, struct search_work *sum)
{
	struct search_work *work = ((struct retriever *)arg)->source.work;

	sum->steps += work->steps;
	sum->values += work->values;
	sum->rows += work->rows;
	*work = (struct search_work){ 0 };
}

/* ---- opening ------------------------------------------------------------- */

static void close_retriever(void *arg)
{
	struct retriever *r = arg;

	r->source.close(r->source.arg);
	free(r->text);
	free(r->place);
	free(r);
}

int source_drafter_open(
	struct drafter *out, const struct source *source, struct err *e)
{
	struct retriever *r = calloc(1, sizeof(*r));

	if (!r) {
		source->close(source->arg);
		return err_set(e, ENOMEM, "no memory to draft from a text");
	}
	r->source = *source;
	/* Reset the counts, so that the work of reading a history, which is
	 * done when the drafter opens, does not count as drafting. */
	*source->work = (struct search_work){ 0 };
	reliance_init(&r->reliance);
	*out = (struct drafter){ .arg = r,
		.begin = begin,
		.expand = expand,
		.batch = 1,
		.resumes = true,
		.saw = saw,
		.computed = source->computed ? computed : NULL,
		.verified = source->verified ? verified : NULL,
		.wants = source->wants ? wants : NULL,
		.predicted = source->predicted ? predicted : NULL,
		.searched = searched,
		.close = close_retriever };
	return 0;
}

void *source_drafter_arg(const struct drafter *d)
{
	return d ? ((struct retriever *)d->arg)->source.arg : NULL;
}
