#include "host/draft/drafter_join.h"

#include "base/err.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Each part (one of the joined drafters) has its own tree, with room for this
 * many times as many nodes as the caller's tree, because nodes may be dropped
 * from the caller's tree but never from a part's. A part whose tree is full
 * adds no more candidates in this cycle of drafting and verification. */
#define SPACIOUS 4

/* When a node's candidates have this total probability, no further part is
 * called for it. */
#define SURE 0.5

struct part {
	const struct drafter *drafter;
	/* the part's own tree, or NULL if none was opened yet */
	struct tree *tree;
	bool begun; /* begin() was called for the current sequence */
	/* [tree->capacity] nodes of `tree` for which expand() was called */
	bool *expanded;
};

struct join {
	struct part *part; /* [n] */
	unsigned n;
	int32_t *text; /* [n_text] sequence of the current tree */
	size_t n_text, cap;
	/* [capacity] For the nodes of one expansion. own: the corresponding
	 * node in one part's tree, or -1. list: the nodes that this part must
	 * expand. sure: whether the node's candidates have the total
	 * probability SURE. */
	uint32_t capacity;
	int32_t *own;
	uint32_t *list;
	bool *sure;
};

/* ---- room ---------------------------------------------------------------- */

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "no memory for more than one drafter");
}

/* ---- one part ------------------------------------------------------------ */

static int begin_part(
	struct join *j, struct part *p, const struct tree *like, struct err *e)
{
	uint32_t capacity = SPACIOUS * like->capacity;
	int ret;

	if (p->begun)
		return 0;
	if (!p->tree || p->tree->capacity != capacity ||
		p->tree->k != like->k) {
		tree_close(p->tree);
		free(p->expanded);
		p->tree = NULL;
		p->expanded = calloc(capacity, sizeof(*p->expanded));
		if (!p->expanded)
			return no_memory(e);
		ret = tree_open(&p->tree, capacity, like->k, e);
		if (ret) {
			p->tree = NULL;
			return ret;
		}
	}
	memset(p->expanded, 0, p->tree->capacity * sizeof(*p->expanded));
	p->expanded[0] = p->begun = true;
	return p->drafter->begin(
		p->drafter->arg, p->tree, j->text, j->n_text, e);
}

static int expand_part(
	struct part *p, const uint32_t *node, uint32_t n, struct err *e)
{
	for (uint32_t i = 0; i < n; i++)
		p->expanded[node[i]] = true;
	return p->drafter->expand(p->drafter->arg, p->tree, node, n, e);
}

/*
 * Set *own to the node of the part's own tree that corresponds to `node` of
 * `t`, adding it if needed. *own is -1 if the part has no candidates after the
 * parent, or no room. Expands all ancestors of *own.
 */
static int find_own(struct join *j, struct part *p, const struct tree *t,
	uint32_t node, int32_t *own, struct err *e)
{
	struct candidate c = { t->token[node], t->q[node] };
	int32_t above;
	int ret = begin_part(j, p, t, e);

	*own = 0;
	if (ret || !node)
		return ret;
	ret = find_own(j, p, t, (uint32_t)t->parent[node], &above, e);
	*own = -1;
	if (!ret && above >= 0 && !p->expanded[above])
		ret = expand_part(p, &(uint32_t){ (uint32_t)above }, 1, e);
	if (ret || above < 0 ||
		(!p->tree->n_candidates[above] && !p->drafter->resumes))
		return ret;
	*own = tree_child(p->tree, (uint32_t)above, t->token[node]);
	if (*own < 0 && p->tree->n < p->tree->capacity)
		*own = (int32_t)tree_add(p->tree, (uint32_t)above, c);
	return 0;
}

/* ---- merging candidates -------------------------------------------------- */

static bool before(struct candidate a, struct candidate b)
{
	return a.q > b.q || (a.q == b.q && a.token < b.token);
}

/* Keep the k likeliest candidates. If a token is already a candidate, it gets
 * the higher of the two probabilities. */
static void add(struct tree *t, uint32_t node, struct candidate new)
{
	struct candidate *c = t->candidate + (size_t)node * t->k;
	uint32_t n = t->n_candidates[node], at = 0;

	while (at < n && c[at].token != new.token)
		at++;
	if (at == n && n < t->k)
		t->n_candidates[node]++;
	else if (at == n)
		at--;
	if (at < n && !before(new, c[at]))
		return;
	for (; at && before(new, c[at - 1]); at--)
		c[at] = c[at - 1];
	c[at] = new;
}

/* Let a part expand those of the nodes whose candidates do not yet have the
 * total probability SURE, and merge its candidates into the nodes. */
static int ask_part(struct join *j, struct part *p, struct tree *t,
	const uint32_t *node, uint32_t n, struct err *e)
{
	uint32_t expanded = 0;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		j->own[i] = -1;
		if (j->sure[i])
			continue;
		ret = find_own(j, p, t, node[i], &j->own[i], e);
		if (!ret && j->own[i] >= 0 && !p->expanded[j->own[i]])
			j->list[expanded++] = (uint32_t)j->own[i];
	}
	if (!ret && expanded)
		ret = expand_part(p, j->list, expanded, e);
	for (uint32_t i = 0; i < n && !ret; i++) {
		const struct candidate *from, *c;
		double sum = 0;

		if (j->own[i] < 0)
			continue;
		from = p->tree->candidate + (size_t)j->own[i] * t->k;
		for (uint32_t k = 0; k < p->tree->n_candidates[j->own[i]]; k++)
			add(t, node[i], from[k]);
		c = t->candidate + (size_t)node[i] * t->k;
		for (uint32_t k = 0; k < t->n_candidates[node[i]]; k++)
			sum += (double)c[k].q;
		j->sure[i] = sum >= SURE;
	}
	return ret;
}

/* ---- all parts ----------------------------------------------------------- */

static int join_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct join *j = arg;
	int ret = 0;

	assert(n <= t->capacity);
	if (t->capacity > j->capacity) {
		free(j->own);
		free(j->list);
		free(j->sure);
		j->capacity = 0;
		j->own = malloc(t->capacity * sizeof(*j->own));
		j->list = malloc(t->capacity * sizeof(*j->list));
		j->sure = malloc(t->capacity * sizeof(*j->sure));
		if (!j->own || !j->list || !j->sure)
			return no_memory(e);
		j->capacity = t->capacity;
	}
	for (uint32_t i = 0; i < n; i++) {
		t->n_candidates[node[i]] = 0;
		j->sure[i] = false;
	}
	for (unsigned i = 0; i < j->n && !ret; i++)
		ret = ask_part(j, &j->part[i], t, node, n, e);
	return ret;
}

static int join_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	const uint32_t root = 0;
	struct join *j = arg;

	tree_reset(t, text[n - 1]);
	for (unsigned i = 0; i < j->n; i++)
		j->part[i].begun = false;
	if (n > j->cap) {
		size_t cap = 2 * n;
		int32_t *more = realloc(j->text, cap * sizeof(*more));

		if (!more)
			return no_memory(e);
		j->text = more;
		j->cap = cap;
	}
	memcpy(j->text, text, n * sizeof(*text));
	j->n_text = n;
	return join_expand(j, t, &root, 1, e);
}

static void join_follow(void *arg, uint32_t sequence)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++) {
		const struct drafter *d = j->part[i].drafter;

		if (d->follow)
			d->follow(d->arg, sequence);
	}
}

static void join_saw(void *arg, const int32_t *text, size_t n)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++)
		if (j->part[i].drafter->saw)
			j->part[i].drafter->saw(
				j->part[i].drafter->arg, text, n);
}

static void join_computed(void *arg, const struct tree *t, uint32_t node,
	const float *logits, uint32_t n_vocab)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++)
		if (j->part[i].drafter->computed)
			j->part[i].drafter->computed(j->part[i].drafter->arg, t,
				node, logits, n_vocab);
}

static bool join_wants(void *arg, const int32_t *prompt, size_t n, size_t at)
{
	const struct join *j = arg;
	bool any = false;

	for (unsigned i = 0; i < j->n; i++) {
		const struct drafter *d = j->part[i].drafter;

		any |= d->wants && d->wants(d->arg, prompt, n, at);
	}
	return any;
}

static void join_read(
	void *arg, size_t at, const float *logits, uint32_t n_vocab)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++) {
		const struct drafter *d = j->part[i].drafter;

		if (d->read)
			d->read(d->arg, at, logits, n_vocab);
	}
}

static void join_price(void *arg, struct price *sum)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++)
		if (j->part[i].drafter->price)
			j->part[i].drafter->price(j->part[i].drafter->arg, sum);
}

static void join_searched(void *arg, struct search_work *sum)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++) {
		const struct drafter *d = j->part[i].drafter;

		if (d->searched)
			d->searched(d->arg, sum);
	}
}

static void join_close(void *arg)
{
	struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++) {
		tree_close(j->part[i].tree);
		free(j->part[i].expanded);
	}
	free(j->part);
	free(j->text);
	free(j->own);
	free(j->list);
	free(j->sure);
	free(j);
}

int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *e)
{
	struct join *j = calloc(1, sizeof(*j));

	assert(n > 0);
	if (j)
		j->part = calloc(n, sizeof(*j->part));
	if (!j || !j->part) {
		free(j);
		return no_memory(e);
	}
	*out = (struct drafter){ .arg = j,
		.begin = join_begin,
		.expand = join_expand,
		.follow = join_follow,
		.batch = part[0].batch,
		.most = part[0].most,
		.saw = join_saw,
		.price = join_price,
		.searched = join_searched,
		.close = join_close };
	for (j->n = 0; j->n < n; j->n++) {
		const struct drafter *d = &part[j->n];

		j->part[j->n].drafter = d;
		out->all_rows |= d->all_rows;
		out->computed = d->computed ? join_computed : out->computed;
		out->wants = d->wants ? join_wants : out->wants;
		out->read = d->wants ? join_read : out->read;
	}
	return 0;
}
