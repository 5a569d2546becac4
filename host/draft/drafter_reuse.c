#include "host/draft/drafter_reuse.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHAINS 16
#define LENGTH 32 /* most tokens of a chain */

/* Ways to repair a draft (sd.npu, table 2); the values are also the origins of
 * guesses. */
enum repair { MISSING, SYNONYM };

struct chain {
	enum repair repair;
	uint32_t age, n;
	int32_t token[LENGTH];
};

/* A node of the last verified tree. */
struct node {
	int32_t token, parent;
	/* the target's best token after this node, or -1 if unknown */
	int32_t predicted;
	uint32_t depth;
};

struct reuse {
	struct reuse_options opts;
	struct node *node; /* [n], room for `rows` */
	uint32_t n, rows;
	size_t before_tree; /* length of the sequence up to the tree's root */
	size_t n_text;
	struct chain chain[CHAINS]; /* [n_chains], the newest first */
	uint32_t n_chains;
	struct search_work work;
};

/* ---- the verified tree --------------------------------------------------- */

static void computed(void *arg, const struct tree *t, uint32_t node,
	const float *logits, uint32_t n_vocab)
{
	struct reuse *r = arg;

	if (!node) {
		r->n = t->n < r->rows ? t->n : r->rows;
		r->before_tree = r->n_text;
		for (uint32_t i = 0; i < r->n; i++)
			r->node[i] = (struct node){ t->token[i], t->parent[i],
				-1, t->depth[i] };
	}
	if (node < r->n && r->opts.checked) {
		uint32_t best = 0;

		r->work.rows++;
		for (uint32_t i = 1; i < n_vocab; i++)
			if (logits[i] > logits[best])
				best = i;
		r->node[node].predicted = (int32_t)best;
	}
}

/* Returns how many of the sequence's new tokens the path to the node begins
 * with. */
static uint32_t agreed(
	const struct reuse *r, uint32_t node, const int32_t *new, size_t n)
{
	const struct node *u = &r->node[node];
	uint32_t above;

	if (!node)
		return 0;
	above = agreed(r, (uint32_t)u->parent, new, n);
	if (above + 1 < u->depth || above >= n || new[above] != u->token)
		return above;
	return above + 1;
}

/* ---- rejected tokens ----------------------------------------------------- */

/* The rejected tokens of a path, and for each whether the target predicted
 * it. */
struct rejected {
	int32_t token[LENGTH];
	bool predicted[LENGTH];
	uint32_t n;
};

static void reject(
	const struct reuse *r, uint32_t leaf, uint32_t from, struct rejected *x)
{
	uint32_t end = r->node[leaf].depth - from;

	x->n = end < LENGTH ? end : LENGTH;
	for (uint32_t u = leaf; u && r->node[u].depth > from;
		u = (uint32_t)r->node[u].parent) {
		uint32_t i = r->node[u].depth - from - 1;
		const struct node *above = &r->node[r->node[u].parent];

		if (i >= LENGTH)
			continue;
		x->token[i] = r->node[u].token;
		x->predicted[i] = !r->opts.checked ||
			above->predicted == r->node[u].token;
	}
}

static bool has_child(const struct reuse *r, uint32_t node)
{
	for (uint32_t u = node + 1; u < r->n; u++)
		if (r->node[u].parent == (int32_t)node)
			return true;
	return false;
}

/* Find the rejected path with the longest run of predicted tokens, at indices
 * [from, end) of its rejected tokens. Returns the run's length. */
static uint32_t best_path(struct reuse *r, const int32_t *new, size_t n,
	struct rejected *best, uint32_t *from, uint32_t *end)
{
	struct rejected x;
	uint32_t most = 0, first, last;

	for (uint32_t u = 1; u < r->n; u++) {
		uint32_t run = 0;

		r->work.values += r->n - u;
		if (has_child(r, u))
			continue;
		r->work.steps += 2 * (uint64_t)r->node[u].depth;
		reject(r, u, agreed(r, u, new, n), &x);

		/* The longest run of predicted tokens after the first rejected
		 * token. */
		first = last = 0;
		for (uint32_t i = 1; i < x.n; i++) {
			run = x.predicted[i] ? run + 1 : 0;
			if (run > last - first) {
				first = i + 1 - run;
				last = i + 1;
			}
		}
		if (last - first <= most)
			continue;
		most = last - first;
		*best = x;
		*from = first;
		*end = last;
	}
	return most;
}

/* ---- chains -------------------------------------------------------------- */

static void push(
	struct reuse *r, enum repair repair, const int32_t *token, uint32_t n)
{
	struct chain *c = r->chain;

	if (r->n_chains < CHAINS)
		r->n_chains++;
	memmove(c + 1, c, (r->n_chains - 1) * sizeof(*c));
	*c = (struct chain){ .repair = repair, .n = n };
	memcpy(c->token, token, n * sizeof(*token));
}

/* If the sequence does not continue the previous one, all chains are
 * dropped. */
static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct reuse *r = arg;
	uint32_t kept = 0, tokens = 0;

	if (same < r->n_text)
		r->n_chains = r->n = 0;
	if (r->n && n > r->before_tree) {
		struct rejected x;
		uint32_t from = 0, end = 0;

		if (best_path(r, text + r->before_tree, n - r->before_tree, &x,
			    &from, &end) >= REUSE_RUN) {
			push(r, MISSING, x.token, end);
			push(r, SYNONYM, x.token + from, end - from);
		}
	}
	r->n = 0;

	/* Drop chains that are too old, and the oldest chains if all together
	 * have too many tokens. Of two chains of the same age, the whole draft
	 * is dropped before the run. */
	for (uint32_t i = 0; i < r->n_chains; i++) {
		struct chain *c = &r->chain[i];

		if (++c->age > r->opts.age ||
			(c->age > 1 && tokens + c->n > r->opts.room))
			continue;
		tokens += c->n;
		r->chain[kept++] = *c;
	}
	r->n_chains = kept;
	r->n_text = n;
	return 0;
}

/* ---- guesses ------------------------------------------------------------- */

/* In a source_place, at[0] is the index of the chain that the path follows,
 * CHAINS for the root, or a larger number for a path that follows none. at[1]
 * is the number of the chain's tokens on the path. */
static void root(void *arg, struct source_place *p)
{
	*p = (struct source_place){ .at = { CHAINS } };
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	struct reuse *r = arg;
	uint32_t chain = p->at[0], at = p->at[1];

	p->at[0] = CHAINS + 1;
	if (chain == CHAINS)
		for (chain = 0; chain < r->n_chains &&
			r->chain[chain].token[0] != token;)
			chain++;
	r->work.values += chain < r->n_chains ? chain + 1 : r->n_chains;
	if (chain >= r->n_chains || at >= r->chain[chain].n ||
		r->chain[chain].token[at] != token)
		return;
	p->at[0] = chain;
	p->at[1] = at + 1;
}

/* List the first tokens of the chains, without listing a token twice for the
 * same kind of repair. The tokens of one kind have equal shares. Returns their
 * number. */
static uint32_t beginnings(
	struct reuse *r, struct source_guess *out, uint32_t most)
{
	uint32_t n = 0, of[2] = { 0 };

	for (uint32_t i = 0; i < r->n_chains && n < most; i++) {
		const struct chain *c = &r->chain[i];
		uint32_t k = 0;

		while (k < n &&
			(out[k].token != c->token[0] ||
				out[k].origin != (uint32_t)c->repair))
			k++;
		r->work.values += k + 1;
		if (k < n)
			continue;
		out[n++] = (struct source_guess){ c->token[0], 0,
			(uint32_t)c->repair, c->age };
		of[c->repair]++;
	}
	for (uint32_t i = 0; i < n; i++)
		out[i].share = 1 / (float)of[out[i].origin];
	return n;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct reuse *r = arg;
	const struct chain *c;

	r->work.steps++;
	if (p->at[0] == CHAINS)
		return beginnings(r, out, most);
	if (p->at[0] >= r->n_chains || p->at[1] >= r->chain[p->at[0]].n)
		return 0;
	c = &r->chain[p->at[0]];
	*out = (struct source_guess){ c->token[p->at[1]], 1,
		(uint32_t)c->repair, c->age };
	return 1;
}

/* ---- opening ------------------------------------------------------------- */

static void close_reuse(void *arg)
{
	struct reuse *r = arg;

	free(r->node);
	free(r);
}

int reuse_open(struct source *out, const struct reuse_options *opts,
	uint32_t rows, struct err *e)
{
	struct reuse *r = calloc(1, sizeof(*r));

	if (r)
		r->node = calloc(rows, sizeof(*r->node));
	if (!r || !r->node) {
		free(r);
		return err_set(e, ENOMEM, "no memory to use drafts again");
	}
	r->opts = *opts;
	r->rows = rows;
	*out = (struct source){ .arg = r,
		.work = &r->work,
		.from = { [MISSING] = SOURCE_REUSED,
			[SYNONYM] = SOURCE_REUSED },
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.computed = computed,
		.all_rows = opts->checked,
		.close = close_reuse };
	return 0;
}

/* ---- as a kind ----------------------------------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(reuse_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "reuse-age", IN(age), "N",
		"reuse: draft rejected tokens again for this many passes ({})", 1, 64 },
	{ OPT_UINT, 0, "reuse-room", IN(room), "N",
		"reuse: rejected tokens that are kept, at most ({})", 1, 512 },
	{ OPT_FLAG, 0, "reuse-checked", IN(checked), NULL,
		"reuse: after the first wrong token, keep only the drafted "
		"tokens that the target also predicted, as in the paper; this "
		"needs the logits of all rows" },
};
/* clang-format on */

static const struct opt_table table = {
	.heading = "drafts",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct reuse_options){ .age = 3, .room = 32 },
	.size = sizeof(struct reuse_options),
};

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct source source;
	int ret = reuse_open(
		&source, opt_values_of(site->values, &table), site->rows, e);

	return ret ? ret : source_drafter_open(out, &source, e);
}

const struct draft_kind draft_kind_reuse = {
	.name = "reuse",
	.summary = "drafts that verification rejected earlier",
	.title = "rejected drafts",
	.options = &table,
	.open = open_kind,
};
