#include "host/draft/drafter_reuse.h"

#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DRAFTS 16
/* maximum number of chains; source_place.at[0] has one bit for each chain */
#define CHAINS 32
#define LENGTH 32 /* maximum number of tokens of a draft */

/* Limits, in the symbols of drafter_reuse.h. PATHS: number of rejected paths of
 * a tree that are kept if opts.checked is not set (otherwise one). SHIFT:
 * greatest difference between gamma and delta + 1 for which gamma is tried only
 * because it is near delta + 1. PATHS and SHIFT were tuned on the bundled tasks
 * with long prompts (flash/models/tasks/..-long.jsonl): larger values add
 * guesses that are seldom accepted. */
#define PATHS 3
#define SHIFT 3

/* How a rejected draft can continue the sequence; x_e is the draft's first
 * rejected token. MISSING: x_e follows ("missing" in the paper's table 2).
 * SYNONYM: other words replace the draft's first words, and the rest of the
 * draft follows ("synonym"). REJOINED: the sequence's last tokens occur in the
 * draft, and the draft's tokens after this occurrence follow. The values are
 * also the origins of guesses (source_guess). */
enum repair { MISSING, SYNONYM, REJOINED, REPAIRS };

/* A rejected draft, from its first rejected token x_e on. */
struct draft {
	uint32_t age;
	/* [n] x_e to x_{e+epsilon}; the last `run` of these tokens were also
	 * predicted by the target */
	int32_t token[LENGTH];
	uint32_t n, run;
	/* index in the sequence of z_e, the token that was accepted instead of
	 * x_e */
	size_t e;
};

/* A possible continuation of the sequence: the tokens x_{e+gamma} to
 * x_{e+epsilon} of a rejected draft. */
struct chain {
	enum repair repair;
	/* REJOINED: number of tokens directly before the chain in the draft
	 * that equal the last tokens of the sequence. SYNONYM: SHIFT - |gamma -
	 * (delta + 1)|. */
	uint32_t match;
	const int32_t *token; /* [n] the last n tokens of a draft */
	uint32_t n;
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
	/* number of tokens of the sequence when the tree's root was the last
	 * token */
	size_t before_tree;
	size_t n_text;
	struct draft draft[DRAFTS]; /* [n_drafts], the newest first */
	uint32_t n_drafts;
	struct chain chain[CHAINS]; /* [n_chains] */
	uint32_t n_chains;
	struct search_work work;
};

/* ---- the verified tree --------------------------------------------------- */

static void keep_tree(struct reuse *r, const struct tree *t)
{
	r->n = t->n < r->rows ? t->n : r->rows;
	r->before_tree = r->n_text;
	for (uint32_t i = 0; i < r->n; i++)
		r->node[i] = (struct node){ t->token[i], t->parent[i], -1,
			t->depth[i] };
}

static void computed(void *arg, const struct tree *t, uint32_t node,
	const float *logits, uint32_t n_vocab)
{
	if (!node)
		keep_tree(arg, t);
}

static void verified(void *arg, const struct tree *t, uint32_t node,
	const struct candidate *c, uint32_t n)
{
	struct reuse *r = arg;

	if (!node)
		keep_tree(r, t);
	if (node < r->n && n)
		r->node[node].predicted = c[0].token;
}

/* Returns how many of new[n], the tokens that follow the tree's root in the
 * sequence, are equal to the first tokens of the path from the root to the
 * node. */
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

/* ---- drafts -------------------------------------------------------------- */

/* Set *d to the path to a leaf, without the first `from` tokens, which were
 * accepted. The first token of *d is x_e, the first rejected token. Find the
 * longest run of tokens after x_e that the target predicted too, and cut *d
 * after this run (equation 3 of the sd.npu paper). Without opts.checked, all
 * tokens count as predicted. */
static void reject(
	const struct reuse *r, uint32_t leaf, uint32_t from, struct draft *d)
{
	uint32_t end = r->node[leaf].depth - from, run = 0;
	bool predicted[LENGTH];

	*d = (struct draft){ .e = r->before_tree + from };
	for (uint32_t u = leaf; u && r->node[u].depth > from;
		u = (uint32_t)r->node[u].parent) {
		uint32_t i = r->node[u].depth - from - 1;

		if (i >= LENGTH)
			continue;
		d->token[i] = r->node[u].token;
		predicted[i] = !r->opts.checked ||
			r->node[r->node[u].parent].predicted == d->token[i];
	}
	for (uint32_t i = 1; i < end && i < LENGTH; i++) {
		run = predicted[i] ? run + 1 : 0;
		if (run > d->run) {
			d->run = run;
			d->n = i + 1;
		}
	}
}

/* Keep those rejected paths of the verified tree that have the longest runs of
 * predicted tokens. new[n] are the tokens that follow the tree's root in the
 * sequence. */
static void keep_paths(struct reuse *r, const int32_t *new, size_t n)
{
	uint32_t most = r->opts.checked ? 1 : PATHS, kept = 0, at;
	struct draft best[PATHS + 1], d;

	for (uint32_t u = 1; u < r->n; u++) {
		uint32_t child = u + 1;

		r->work.values += r->n - u;
		while (child < r->n && r->node[child].parent != (int32_t)u)
			child++;
		if (child < r->n)
			continue;
		r->work.steps += 2 * (uint64_t)r->node[u].depth;
		reject(r, u, agreed(r, u, new, n), &d);
		if (d.run < REUSE_RUN)
			continue;
		for (at = kept; at && best[at - 1].run < d.run; at--)
			best[at] = best[at - 1];
		best[at] = d;
		if (kept < most)
			kept++;
	}
	memmove(r->draft + kept, r->draft, (DRAFTS - kept) * sizeof(*r->draft));
	memcpy(r->draft, best, kept * sizeof(*best));
	r->n_drafts = r->n_drafts + kept < DRAFTS ? r->n_drafts + kept : DRAFTS;
}

/* ---- chains -------------------------------------------------------------- */

/* Add the chains that a draft yields after the sequence text[n]: the draft
 * without its first gamma tokens. Without opts.checked gamma is unknown, so
 * several values of gamma are tried. The target's words often have as many
 * tokens as the draft's words, so values near delta + 1 are tried. A value of
 * gamma is also tried if the draft's tokens before x_{e+gamma} are the last
 * tokens of the sequence. */
static void add_chains(
	struct reuse *r, const struct draft *d, const int32_t *text, size_t n)
{
	/* number of accepted tokens from z_e to z_{e+delta}: delta + 1 */
	size_t accepted = n - d->e;

	for (uint32_t gamma = 0; gamma < d->n && r->n_chains < CHAINS;
		gamma++) {
		size_t shift =
			gamma < accepted ? accepted - gamma : gamma - accepted;
		enum repair repair = gamma ? SYNONYM : MISSING;
		uint32_t match = 0;

		if (r->opts.checked && gamma && gamma != d->n - d->run)
			continue;
		if (!r->opts.checked && gamma) {
			while (match < gamma && match < accepted &&
				d->token[gamma - 1 - match] ==
					text[n - 1 - match])
				match++;
			if (match)
				repair = REJOINED;
			else if (shift <= SHIFT)
				match = (uint32_t)(SHIFT - shift);
			else
				continue;
		}
		r->chain[r->n_chains++] = (struct chain){ repair, match,
			d->token + gamma, d->n - gamma };
	}
}

/* If the sequence does not continue the previous sequence, drop all drafts. */
static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct reuse *r = arg;
	uint32_t kept = 0, tokens = 0;

	if (same < r->n_text)
		r->n_drafts = r->n = 0;
	if (r->n && n > r->before_tree)
		keep_paths(r, text + r->before_tree, n - r->before_tree);
	/* Drop drafts that are too old. If the remaining drafts have too many
	 * tokens in total, drop the oldest of them. */
	for (uint32_t i = 0; i < r->n_drafts; i++) {
		struct draft *d = &r->draft[i];

		if (++d->age > r->opts.age ||
			(d->age > 1 && tokens + d->n > r->opts.room))
			continue;
		tokens += d->n;
		r->draft[kept++] = *d;
	}
	r->n_drafts = kept;
	r->n = 0;
	r->n_text = n;
	r->n_chains = 0;
	for (uint32_t i = 0; i < r->n_drafts; i++)
		add_chains(r, &r->draft[i], text, n);
	return 0;
}

/* ---- guesses ------------------------------------------------------------- */

/* In a source_place, at[0] has one bit for each chain that the path follows,
 * and at[1] is the number of drafted tokens. */
static void root(void *arg, struct source_place *p)
{
	const struct reuse *r = arg;

	*p = (struct source_place){
		.at = { (uint32_t)((UINT64_C(1) << r->n_chains) - 1) }
	};
}

static bool follows(
	const struct reuse *r, const struct source_place *p, uint32_t chain)
{
	return p->at[0] >> chain & 1 && p->at[1] < r->chain[chain].n;
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	struct reuse *r = arg;

	for (uint32_t i = 0; i < r->n_chains; i++)
		if (!follows(r, p, i) || r->chain[i].token[p->at[1]] != token)
			p->at[0] &= ~(UINT32_C(1) << i);
	p->at[1]++;
	r->work.values += r->n_chains;
}

/* All chains with the same repair get equal shares. Those of them that also
 * have the same next token and match length are one guess, whose share is the
 * sum of their shares. List the likeliest repair first, because a draft without
 * branches takes only the first guess. */
static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct reuse *r = arg;
	uint32_t n = 0;

	r->work.steps++;
	for (uint32_t repair = REPAIRS; repair--;) {
		uint32_t first = n, chains = 0;

		for (uint32_t i = 0; i < r->n_chains; i++) {
			const struct chain *c = &r->chain[i];
			uint32_t k = first;

			if (c->repair != repair || !follows(r, p, i))
				continue;
			while (k < n &&
				(out[k].token != c->token[p->at[1]] ||
					out[k].match != c->match))
				k++;
			r->work.values += k - first + 1;
			if (k == most)
				continue;
			if (k == n)
				out[n++] = (struct source_guess){
					c->token[p->at[1]], 0, repair, c->match
				};
			out[k].share++;
			chains++;
		}
		for (uint32_t k = first; k < n; k++)
			out[k].share /= (float)chains;
	}
	return n;
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
		return err_set(e, ENOMEM, "no memory for --draft reuse");
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
		.computed = opts->checked ? NULL : computed,
		.verified = opts->checked ? verified : NULL,
		.close = close_reuse };
	return 0;
}

/* ---- the kind of drafter (draft_kind.h) ---------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(reuse_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "reuse-age", IN(age), "N",
		"drafter reuse: number of passes during which rejected tokens "
		"may be drafted again ({})", 1, 64 },
	{ OPT_UINT, 0, "reuse-room", IN(room), "N",
		"reuse: maximum number of rejected tokens kept to be drafted "
		"again ({})", 1, 512 },
	{ OPT_FLAG, 0, "reuse-checked", IN(checked), NULL,
		"drafter reuse: after a draft's first rejected token, keep a "
		"token only if the target also predicted it, as in sd.npu's "
		"paper; the device must then predict after every row" },
};
/* clang-format on */

static const struct opt_table table = OPT_TABLE_INIT(
	"drafts", option_rows, reuse_options, .age = 3, .room = 32);

static uint32_t predictions(const struct opt_values *v)
{
	const struct reuse_options *o = opt_values_of(v, &table);

	return o->checked;
}

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
	.predictions = predictions,
	.options = &table,
	.open = open_kind,
};
