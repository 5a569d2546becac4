/*
 * Token Recycling (Luo et al., ACL 2025): the tokens that the target predicted
 * after the latest occurrence of a token are likely to follow this token again.
 * For every token, across all requests, a table keeps the eight likeliest next
 * tokens (successors) from the most recently verified row of this token. A row
 * is one token of a pass, for which the target computes logits. A draft is
 * built by looking up each drafted token in turn. If a token occurs in several
 * rows of a tree, the table keeps the successors from the deepest of these rows
 * and, of equally deep rows, from the one that was reported last.
 *
 * The paper fills a tree of fixed shape with the successors by rank. Here each
 * rank has a probability: the share of cases in which the target's best token
 * was found at that rank, learned whenever a table row is replaced. Tree
 * builders choose nodes by this probability.
 */
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/model/model.h"
#include "host/tree/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RANKS   8
#define UNKNOWN (-1)

/* Number of replacements of table rows over which the ranks' probabilities are
 * averaged; older replacements lose influence. */
#define MEMORY 1024.0

struct recycle_options {
	int rows; /* ROWS_WAY or ROWS_ALL */
};

/* The rows of a pass that update the table: the rows whose logits are computed
 * anyway, which are mostly accepted rows (ROWS_WAY), or all rows (ROWS_ALL). */
enum { ROWS_WAY, ROWS_ALL };

static const char *const recycled_rows[] = { "way", "all", NULL };

#define IN(field) OPT_IN(recycle_options, field)
static const struct opt option_rows[] = {
	{ OPT_CHOICE, 0, "recycle-rows", IN(rows), NULL,
		"drafter recycle: rows of a pass whose predicted next tokens "
		"are stored for later drafts ({}); way: the accepted rows, "
		"whose logits are computed anyway; all: every row, so the "
		"device must predict after every row",
		.choices = recycled_rows },
};

static const struct opt_table table = OPT_TABLE_INIT(
	"drafts", option_rows, recycle_options, .rows = ROWS_WAY);

/* A verified row that is not in the table yet. */
struct fresh {
	int32_t token;
	uint32_t depth;
	int32_t next[RANKS];
};

struct recycle {
	/* [n_vocab] the likeliest successors of each token, the likeliest
	 * first; UNKNOWN if no row of the token was verified yet */
	int32_t (*next)[RANKS];
	uint32_t n_vocab;
	/* rows: number of replacements of table rows. at[i]: in how many of
	 * them the best token of the new table row was at rank i of the old
	 * one. */
	double rows, at[RANKS];
	/* [n_fresh] sorted by depth. The next take() puts these rows into the
	 * table. Before a row replaces a table row, from which the previous
	 * draft was made, take() compares the two rows, to learn how often the
	 * best token is at each rank. */
	struct fresh *fresh;
	uint32_t n_fresh, room;
	int32_t last; /* last token of the sequence */
	struct search_work work;
};

/* ---- rows ---------------------------------------------------------------- */

/* Set next[] to the tokens with the largest logits, in descending order; equal
 * logits are ordered by token id. */
static void best_tokens(const float *logits, uint32_t n, int32_t next[RANKS])
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = kept;

		if (kept == RANKS && !(logits[i] > logits[next[RANKS - 1]]))
			continue;
		if (kept < RANKS)
			kept++;
		else
			at--;
		for (; at && logits[i] > logits[next[at - 1]]; at--)
			next[at] = next[at - 1];
		next[at] = (int32_t)i;
	}
	while (kept < RANKS)
		next[kept++] = UNKNOWN;
}

/* Estimated probability that the token at a rank of a table row is right. The
 * prior probability is 1/2 for rank 0 and halves with each further rank. */
static double share(const struct recycle *r, uint32_t rank)
{
	const double prior = 8;

	return (r->at[rank] + prior / (double)(2u << rank)) / (r->rows + prior);
}

/* ---- the source ---------------------------------------------------------- */

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct recycle *r = arg;

	for (uint32_t i = 0; i < r->n_fresh; i++) {
		const struct fresh *f = &r->fresh[i];
		int32_t *row = r->next[f->token];

		/* learn at which rank of the old table row the best token of
		 * the new row is */
		if (row[0] != UNKNOWN) {
			for (uint32_t k = 0; k < RANKS; k++)
				r->at[k] += row[k] == f->next[0];
			r->rows++;
		}
		if (r->rows > MEMORY) {
			for (uint32_t k = 0; k < RANKS; k++)
				r->at[k] *= MEMORY / r->rows;
			r->rows = MEMORY;
		}
		memcpy(row, f->next, sizeof(f->next));
	}
	r->n_fresh = 0;
	r->last = text[n - 1];
	return 0;
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	p->at[0] = (uint32_t)token;
}

static void root(void *arg, struct source_place *p)
{
	const struct recycle *r = arg;

	p->at[0] = (uint32_t)r->last;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct recycle *r = arg;
	const int32_t *row = r->next[p->at[0]];
	uint32_t n = 0;

	r->work.steps++;
	for (; n < RANKS && n < most && row[n] != UNKNOWN; n++)
		out[n] = (struct source_guess){ .token = row[n],
			.share = (float)share(r, n) };
	return n;
}

static void insert_fresh(struct recycle *r, struct fresh new)
{
	uint32_t at = r->n_fresh;

	if (at == r->room)
		return;
	for (; at && r->fresh[at - 1].depth > new.depth; at--)
		r->fresh[at] = r->fresh[at - 1];
	r->fresh[at] = new;
	r->n_fresh++;
}

static void computed(void *arg, const struct tree *t, uint32_t node,
	const float *logits, uint32_t n_vocab)
{
	struct recycle *r = arg;
	struct fresh new = { t->token[node], t->depth[node], { 0 } };

	r->work.rows++;
	best_tokens(logits, n_vocab, new.next);
	insert_fresh(r, new);
}

static void verified(void *arg, const struct tree *t, uint32_t node,
	const struct candidate *c, uint32_t n)
{
	struct fresh new = { t->token[node], t->depth[node], { 0 } };

	for (uint32_t i = 0; i < RANKS; i++)
		new.next[i] = i < n ? c[i].token : UNKNOWN;
	insert_fresh(arg, new);
}

static void close_recycle(void *arg)
{
	struct recycle *r = arg;

	free(r->next);
	free(r->fresh);
	free(r);
}

static uint32_t predictions(const struct opt_values *v)
{
	const struct recycle_options *o = opt_values_of(v, &table);

	return o->rows == ROWS_ALL ? RANKS : 0;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct recycle_options *o = opt_values_of(site->values, &table);
	struct recycle *r = calloc(1, sizeof(*r));
	const struct source source = { .arg = r,
		.work = r ? &r->work : NULL,
		.from = { SOURCE_RECYCLED },
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.computed = o->rows == ROWS_ALL ? NULL : computed,
		.verified = o->rows == ROWS_ALL ? verified : NULL,
		.close = close_recycle };

	if (!r)
		return err_set(e, ENOMEM, "no memory for --draft recycle");
	r->n_vocab = site->target->n_vocab;
	r->room = site->rows;
	r->next = malloc(r->n_vocab * sizeof(*r->next));
	r->fresh = malloc(r->room * sizeof(*r->fresh));
	if (!r->next || !r->fresh) {
		close_recycle(r);
		return err_set(e, ENOMEM,
			"no memory to keep %d successors of each of %u tokens",
			RANKS, site->target->n_vocab);
	}
	memset(r->next, 0xff, r->n_vocab * sizeof(*r->next));
	return source_drafter_open(out, &source, e);
}

/* Returns the length of the longest chain: the depth of the paper's tree. */
static uint32_t length(const struct opt_values *values)
{
	return 6;
}

const struct draft_kind draft_kind_recycle = {
	.name = "recycle",
	.summary = "the target's earlier predictions after the last token",
	.title = "recycled tokens",
	.options = &table,
	.length = length,
	.predictions = predictions,
	.open = open_kind,
};
