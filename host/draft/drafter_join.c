#include "host/draft/drafter_join.h"

#include "base/err.h"
#include "host/draft/drafting.h"
#include "host/draft/guess.h"
#include "host/session/batch.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tensor/soc/price_host.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Each part (one of the joined drafters) has its own tree. A node that is
 * dropped from the caller's tree stays in the part's tree, so the part's tree
 * has room for SPACIOUS times as many nodes as the caller's. A part whose tree
 * is full adds no more candidates in this cycle of drafting and
 * verification. */
#define SPACIOUS 4

/* If the candidates of the parts that run no model have at least this total
 * probability at a node, the parts that run a model are not called for the
 * node. */
#define SURE 0.9

/* The weight of a part is kept / promised. `kept` and `promised` are sums over
 * the accepted tokens; each begins at PRIOR. For each accepted token,
 * `promised` grows by the total probability of the part's candidates at the
 * token's parent node, and `kept` by the part's share in the pooled probability
 * of the token (drafter_join.h). If `promised` exceeds MEMORY, both sums are
 * scaled down, so older tokens lose influence. */
#define PRIOR  4.0
#define MEMORY 256.0

struct weight {
	double promised, kept;
};

/* At a node where a part has candidates, three cases are distinguished: no
 * other part has candidates (ALONE), another part has the same best candidate
 * (SHARED), or other parts have candidates, but different best ones (DISPUTED).
 * A part has one weight for each case. */
enum support { ALONE, SHARED, DISPUTED, SUPPORTS };

enum state { UNEXPANDED, REQUESTED, EXPANDED };

struct part {
	const struct drafter *drafter;
	struct weight weight[SUPPORTS];
	/* the part's own tree, or NULL before it is opened */
	struct tree *tree;
	/* whether begin() was called for the current sequence */
	bool begun;
	unsigned char *state; /* [tree->capacity] enum state of each node */
	uint32_t *list;       /* [tree->capacity] nodes to be expanded next */
	uint32_t n_list;
};

struct join {
	struct part *part; /* [n] the joined drafters */
	/* parts 0 to n_searching - 1 run no model */
	unsigned n, n_searching;
	/* [n_text] the sequence that the current tree continues */
	int32_t *text;
	size_t n_text, room;
	/* [capacity] for each node that is being expanded. own: the
	 * corresponding node in each part's tree, or -1. sure: the candidates
	 * of the parts without a model have a total probability of at least
	 * SURE. */
	uint32_t capacity;
	int32_t (*own)[DRAFT_PARTS];
	bool *sure;
	struct search_work work;
};

static void close_tree(struct part *p)
{
	tree_close(p->tree);
	free(p->state);
	free(p->list);
	p->tree = NULL;
	p->state = NULL;
	p->list = NULL;
}

/* ---- one part ------------------------------------------------------------ */

static int open_tree(struct part *p, const struct tree *like, struct err *e)
{
	uint32_t capacity = SPACIOUS * like->capacity;
	int ret = 0;

	if (!p->tree || p->tree->capacity != capacity ||
		p->tree->k != like->k) {
		close_tree(p);
		p->state = malloc(capacity);
		p->list = malloc(capacity * sizeof(*p->list));
		if (!p->state || !p->list)
			return err_set(e, ENOMEM,
				"no memory to join several drafters");
		ret = tree_open(&p->tree, capacity, like->k, e);
		if (ret)
			p->tree = NULL;
	}
	if (!ret) {
		memset(p->state, UNEXPANDED, capacity);
		p->state[0] = EXPANDED;
		p->begun = true;
	}
	return ret;
}

static void request(struct part *p, uint32_t own)
{
	if (p->state[own] != UNEXPANDED)
		return;
	p->state[own] = REQUESTED;
	p->list[p->n_list++] = own;
}

/*
 * Returns the node of the part's tree that corresponds to `node` of `t`. Adds
 * nodes that are missing in the part's tree, and requests the expansion of all
 * ancestors. Returns -1 if the part's tree has no room for the node or for an
 * ancestor, or if the part can draft nothing below an ancestor.
 */
static int32_t find_own(struct part *p, const struct tree *t, uint32_t node)
{
	int32_t above, own;

	if (!node)
		return 0;
	above = find_own(p, t, (uint32_t)t->parent[node]);
	if (above < 0 ||
		(p->state[above] == EXPANDED && !p->drafter->resumes &&
			!p->tree->n_candidates[above]))
		return -1;
	request(p, (uint32_t)above);
	own = tree_child(p->tree, (uint32_t)above, t->token[node]);
	if (own < 0 && p->tree->n < p->tree->capacity)
		own = (int32_t)tree_add(p->tree, (uint32_t)above,
			(struct candidate){ t->token[node], t->q[node] });
	return own;
}

/* Call the same part of several joins (one join for each request), to begin
 * trees or to expand nodes. */
static int call(const struct drafter *d, const struct drafter_ask *ask,
	uint32_t n, struct err *e)
{
	int ret = 0;

	if (n > 1 && d->expand_all)
		return ask->node ? d->expand_all(ask, n, e)
				 : d->begin_all(ask, n, e);
	for (; n-- && !ret; ask++)
		ret = ask->node
			? d->expand(ask->arg, ask->tree, ask->node, ask->n, e)
			: d->begin(ask->arg, ask->tree, ask->text, ask->n_text,
				  e);
	return ret;
}

/* List in p->list the nodes of part i's tree that must be expanded, so that the
 * part has candidates for the nodes ask->node[] of the caller's tree. */
static void list_nodes(const struct drafter_ask *ask, unsigned i)
{
	struct join *j = ask->arg;
	struct part *p = &j->part[i];

	p->n_list = 0;
	for (uint32_t u = 0; u < ask->n; u++) {
		int32_t own = -1;

		if (!j->sure[u])
			own = find_own(p, ask->tree, ask->node[u]);
		if (own >= 0)
			request(p, (uint32_t)own);
		j->own[u][i] = own;
	}
}

/* Let part i of n joins expand the nodes for which sure[] is not set. */
static int call_part(
	const struct drafter_ask *ask, uint32_t n, unsigned i, struct err *e)
{
	const struct drafter *d = ((struct join *)ask->arg)->part[i].drafter;
	struct drafter_ask begin[ROWS_SEQUENCES], expand[ROWS_SEQUENCES];
	uint32_t begins = 0, expands = 0;
	int ret = 0;

	for (uint32_t a = 0; a < n && !ret; a++) {
		struct join *j = ask[a].arg;
		struct part *p = &j->part[i];
		bool all = true;

		for (uint32_t u = 0; u < ask[a].n; u++)
			all &= j->sure[u];
		if (p->begun || all)
			continue;
		ret = open_tree(p, ask[a].tree, e);
		begin[begins++] = (struct drafter_ask){ .arg = p->drafter->arg,
			.tree = p->tree,
			.text = j->text,
			.n_text = j->n_text };
	}
	if (!ret && begins)
		ret = call(d, begin, begins, e);
	for (uint32_t a = 0; a < n && !ret; a++) {
		struct part *p = &((struct join *)ask[a].arg)->part[i];

		list_nodes(&ask[a], i);
		if (p->n_list)
			expand[expands++] =
				(struct drafter_ask){ .arg = p->drafter->arg,
					.tree = p->tree,
					.node = p->list,
					.n = p->n_list };
	}
	if (!ret && expands)
		ret = call(d, expand, expands, e);
	for (uint32_t a = 0; a < n && !ret; a++) {
		struct part *p = &((struct join *)ask[a].arg)->part[i];

		while (p->n_list)
			p->state[p->list[--p->n_list]] = EXPANDED;
	}
	return ret;
}

/* ---- weights ------------------------------------------------------------- */

/* The candidates of part `i` after a node; none if the part did not expand the
 * node. */
static uint32_t candidates(const struct join *j, unsigned i, int32_t own,
	const struct candidate **c)
{
	const struct part *p = &j->part[i];

	if (own < 0 || p->state[own] != EXPANDED)
		return 0;
	*c = p->tree->candidate + (size_t)own * p->tree->k;
	return p->tree->n_candidates[own];
}

/* Return the weight of part `i` at a node where the part has candidates: its
 * weight for the case (enum support) that applies at this node. own[n] are the
 * corresponding nodes in the parts' trees. */
static struct weight *weight_of(struct join *j, unsigned i, const int32_t *own)
{
	const struct candidate *mine, *other;
	enum support support = ALONE;

	candidates(j, i, own[i], &mine);
	for (unsigned k = 0; k < j->n; k++) {
		if (k == i || !candidates(j, k, own[k], &other))
			continue;
		if (other->token == mine->token)
			return &j->part[i].weight[SHARED];
		support = DISPUTED;
	}
	return &j->part[i].weight[support];
}

/*
 * Pool the candidates of all parts after a node; own[n] are the corresponding
 * nodes in the parts' trees. Returns the number of tokens, which are written to
 * pool[] in the order of the parts. If several parts have the same token, the
 * token gets the source of the first of these parts.
 */
static uint32_t pool(struct join *j, const int32_t *own, struct candidate *pool)
{
	uint32_t n = 0, at;

	for (unsigned i = 0; i < j->n; i++) {
		const struct candidate *c;
		uint32_t m = candidates(j, i, own[i], &c);
		const struct weight *w = m ? weight_of(j, i, own) : NULL;
		double weight = w ? w->kept / w->promised : 0;

		for (uint32_t k = 0; k < m; k++) {
			for (at = 0; at < n && pool[at].token != c[k].token;)
				at++;
			if (at == n)
				pool[n++] = (struct candidate){ c[k].token, 0,
					c[k].source };
			pool[at].q = (float)(1 -
				(1 - (double)pool[at].q) *
					(1 - fmin(weight * (double)c[k].q, 1)));
		}
	}
	j->work.values += (uint64_t)n * n;
	return n;
}

/* Update the parts' weights for a token that was accepted after a node, and
 * replace each own[i] by its child with this token. own[n] are the
 * corresponding nodes in the parts' trees. Returns false if no part has such a
 * child. */
static bool learn(struct join *j, int32_t *own, int32_t token)
{
	struct candidate pooled[DRAFT_PARTS * TREE_CANDIDATES];
	struct weight *w[DRAFT_PARTS] = { NULL };
	uint32_t n = pool(j, own, pooled), at = 0;
	bool any = false;

	while (at < n && pooled[at].token != token)
		at++;
	for (unsigned i = 0; i < j->n; i++) {
		const struct candidate *c;

		if (candidates(j, i, own[i], &c))
			w[i] = weight_of(j, i, own);
	}
	for (unsigned i = 0; i < j->n; i++) {
		const struct candidate *c;
		uint32_t m = candidates(j, i, own[i], &c);
		double weight = m ? w[i]->kept / w[i]->promised : 0;
		double kept = 0, promised = 0;

		for (uint32_t k = 0; k < m; k++) {
			promised += (double)c[k].q;
			/* this part's share in the pooled probability of the
			 * token */
			if (c[k].token == token && pooled[at].q > 0)
				kept = fmin(weight * (double)c[k].q, 1) /
					(double)pooled[at].q;
		}
		if (m) {
			w[i]->promised += promised;
			w[i]->kept += kept;
		}
		if (m && w[i]->promised > MEMORY) {
			w[i]->kept *= MEMORY / w[i]->promised;
			w[i]->promised = MEMORY;
		}
		if (own[i] >= 0)
			own[i] = tree_child(
				j->part[i].tree, (uint32_t)own[i], token);
		any |= own[i] >= 0;
	}
	return any;
}

static bool before(struct candidate a, struct candidate b)
{
	return a.q > b.q || (a.q == b.q && a.token < b.token);
}

/* Insert a candidate if it is among the k likeliest candidates of the node. */
static void put(struct tree *t, uint32_t node, struct candidate new)
{
	struct candidate *c = t->candidate + (size_t)node * t->k;
	uint32_t at = t->n_candidates[node];

	if (at < t->k)
		t->n_candidates[node]++;
	else if (!before(new, c[--at]))
		return;
	for (; at && before(new, c[at - 1]); at--)
		c[at] = c[at - 1];
	c[at] = new;
}

/* ---- all parts ----------------------------------------------------------- */

static int make_room(struct join *j, uint32_t capacity, struct err *e)
{
	if (capacity <= j->capacity)
		return 0;
	free(j->own);
	free(j->sure);
	j->capacity = 0;
	j->own = malloc(capacity * sizeof(*j->own));
	j->sure = malloc(capacity * sizeof(*j->sure));
	if (!j->own || !j->sure)
		return err_set(e, ENOMEM, "no memory to join several drafters");
	j->capacity = capacity;
	return 0;
}

/* Set sure[] for the nodes at which the candidates of the parts called so far
 * have a total probability of at least SURE. */
static void find_sure(const struct drafter_ask *ask)
{
	struct join *j = ask->arg;
	struct candidate pooled[DRAFT_PARTS * TREE_CANDIDATES];

	for (uint32_t u = 0; u < ask->n; u++) {
		uint32_t n = pool(j, j->own[u], pooled);
		double sum = 0;

		while (n)
			sum += (double)pooled[--n].q;
		j->sure[u] = sum >= SURE;
	}
}

static void put_candidates(const struct drafter_ask *ask)
{
	struct join *j = ask->arg;
	struct tree *t = ask->tree;
	struct candidate pooled[DRAFT_PARTS * TREE_CANDIDATES];

	for (uint32_t u = 0; u < ask->n; u++) {
		uint32_t node = ask->node[u];
		uint32_t n = pool(j, j->own[u], pooled);
		struct candidate *c = t->candidate + (size_t)node * t->k;
		double rest = 0, left;

		t->n_candidates[node] = 0;
		for (uint32_t k = 0; k < n; k++)
			put(t, node, pooled[k]);
		/* The likeliest candidate keeps its probability p. If the
		 * probabilities of the other candidates add up to more than 1 -
		 * p, reduce them in proportion. */
		n = t->n_candidates[node];
		for (uint32_t k = 1; k < n; k++)
			rest += (double)c[k].q;
		left = n ? 1 - (double)c[0].q : 0;
		for (uint32_t k = 1; k < n && rest > left; k++)
			c[k].q = (float)((double)c[k].q * left / rest);
	}
}

static int join_expand_all(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	const struct join *first = ask->arg;
	int ret = 0;

	for (uint32_t a = 0; a < n && !ret; a++) {
		struct join *j = ask[a].arg;

		assert(ask[a].n <= ask[a].tree->capacity);
		ret = make_room(j, ask[a].tree->capacity, e);
		for (uint32_t u = 0; u < ask[a].n && !ret; u++) {
			j->sure[u] = false;
			memset(j->own[u], -1, sizeof(j->own[u]));
		}
	}
	for (unsigned i = 0; i < first->n && !ret; i++) {
		if (i == first->n_searching)
			for (uint32_t a = 0; a < n; a++)
				find_sure(&ask[a]);
		ret = call_part(ask, n, i, e);
	}
	for (uint32_t a = 0; a < n && !ret; a++)
		put_candidates(&ask[a]);
	return ret;
}

static int join_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	const struct drafter_ask ask = {
		.arg = arg, .tree = t, .node = node, .n = n
	};

	return join_expand_all(&ask, 1, e);
}

static int join_begin_all(
	const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	static const uint32_t root = 0;
	struct drafter_ask roots[ROWS_SEQUENCES];

	for (uint32_t a = 0; a < n; a++) {
		struct join *j = ask[a].arg;

		tree_reset(ask[a].tree, ask[a].text[ask[a].n_text - 1]);
		for (unsigned i = 0; i < j->n; i++)
			j->part[i].begun = false;
		if (ask[a].n_text > j->room) {
			size_t room = 2 * ask[a].n_text;
			int32_t *more = realloc(j->text, room * sizeof(*more));

			if (!more)
				return err_set(e, ENOMEM,
					"no memory to join several drafters");
			j->text = more;
			j->room = room;
		}
		j->n_text = ask[a].n_text;
		memcpy(j->text, ask[a].text, j->n_text * sizeof(*j->text));
		roots[a] = (struct drafter_ask){
			.arg = j, .tree = ask[a].tree, .node = &root, .n = 1
		};
	}
	return join_expand_all(roots, n, e);
}

static int join_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	const struct drafter_ask ask = {
		.arg = arg, .tree = t, .text = text, .n_text = n
	};

	return join_begin_all(&ask, 1, e);
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
	struct join *j = arg;
	int32_t own[DRAFT_PARTS];
	size_t at = j->n_text;

	if (at && text_common(text, n, j->text, at) == at) {
		for (unsigned i = 0; i < j->n; i++)
			own[i] = j->part[i].begun ? 0 : -1;
		while (at < n && learn(j, own, text[at]))
			at++;
	}
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

static void join_verified(void *arg, const struct tree *t, uint32_t node,
	const struct candidate *c, uint32_t n)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++)
		if (j->part[i].drafter->verified)
			j->part[i].drafter->verified(
				j->part[i].drafter->arg, t, node, c, n);
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

static void join_predicted(
	void *arg, size_t at, const struct candidate *c, uint32_t n)
{
	const struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++) {
		const struct drafter *d = j->part[i].drafter;

		if (d->predicted)
			d->predicted(d->arg, at, c, n);
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
	struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++) {
		const struct drafter *d = j->part[i].drafter;

		if (d->searched)
			d->searched(d->arg, sum);
	}
	sum->values += j->work.values;
	j->work.values = 0;
}

static void join_close(void *arg)
{
	struct join *j = arg;

	for (unsigned i = 0; i < j->n; i++)
		close_tree(&j->part[i]);
	free(j->part);
	free(j->text);
	free(j->own);
	free(j->sure);
	free(j);
}

int drafter_join_open(struct drafter *out, const struct drafter *part,
	unsigned n, struct err *e)
{
	struct join *j = calloc(1, sizeof(*j));

	assert(n > 0 && n <= DRAFT_PARTS);
	if (j)
		j->part = calloc(n, sizeof(*j->part));
	if (!j || !j->part) {
		free(j);
		return err_set(e, ENOMEM, "no memory to join several drafters");
	}
	j->n = n;
	*out = (struct drafter){ .arg = j,
		.begin = join_begin,
		.expand = join_expand,
		.begin_all = join_begin_all,
		.expand_all = join_expand_all,
		.follow = join_follow,
		.saw = join_saw,
		.price = join_price,
		.searched = join_searched,
		.close = join_close };
	for (unsigned i = 0; i < n; i++)
		j->n_searching += part[i].searched != NULL;
	for (unsigned i = 0, searching = 0, others = j->n_searching; i < n;
		i++) {
		const struct drafter *d = &part[i];
		struct part *p = &j->part[d->searched ? searching++ : others++];

		p->drafter = d;
		for (unsigned k = 0; k < SUPPORTS; k++)
			p->weight[k] = (struct weight){ PRIOR, PRIOR };
		if (d->batch > out->batch)
			out->batch = d->batch;
		if (d->most > out->most)
			out->most = d->most;
		out->verified = d->verified ? join_verified : out->verified;
		out->computed = d->computed ? join_computed : out->computed;
		out->wants = d->wants ? join_wants : out->wants;
		out->predicted = d->wants ? join_predicted : out->predicted;
	}
	return 0;
}
