/*
 * SuffixDecoding (Oliaro et al., NeurIPS 2025): what came behind the end of the
 * text where it stood before, by how often each token did, from trees of
 * suffixes. Of the suffixes that match, the one is drafted from whose draft
 * promises most tokens: the sum, over the tokens of its likeliest path, of the
 * probability that they are reached. A draft is `factor` times as long as the
 * match and `offset`; tokens that come less than once in ten are none.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/draft/suffix_tree.h"

#include <errno.h>
#include <stdlib.h>

struct suffix_options {
	double factor;
	uint32_t offset;
};

#define IN(field) OPT_IN(suffix_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "suffix-factor", IN(factor), "F",
		"with suffix: tokens drafted for each that matches ({})", 0,
		SUFFIX_DEPTH },
	{ OPT_UINT, 0, "suffix-offset", IN(offset), "N",
		"with suffix: and so many more ({})", 0, SUFFIX_DEPTH },
};

static const struct opt_table table = {
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct suffix_options){ .factor = 1 },
	.size = sizeof(struct suffix_options),
};

struct suffix {
	struct suffix_options opts;
	struct suffix_tree *text;
	/* Where it is drafted from: what matched, how far it reaches. */
	struct suffix_place root;
	uint32_t match, limit;
};

/* ---- which match --------------------------------------------------------- */

static uint32_t limit_of(const struct suffix *s, uint32_t match)
{
	double limit = s->opts.factor * match + s->opts.offset;
	uint32_t room = SUFFIX_DEPTH - match;

	return limit < room ? (uint32_t)limit : room;
}

/* Tokens that the likeliest path behind a place promises. */
static double worth(
	const struct suffix_tree *t, struct suffix_place p, uint32_t limit)
{
	struct suffix_next next[SUFFIX_RARE];
	double path = 1, sum = 0;

	for (uint32_t i = 0; i < limit; i++) {
		if (!suffix_tree_next(t, &p, next))
			break;
		path *= (double)next[0].count / suffix_tree_count(t, &p);
		if (path * SUFFIX_RARE < 1)
			break;
		sum += path;
		suffix_tree_step(t, &p, next[0].token);
	}
	return sum;
}

/* No draft is worth more than it is long. */
static void choose(struct suffix *s, const struct suffix_matches *m)
{
	double best = 0;

	s->match = s->limit = 0;
	for (uint32_t match = m->n; match; match--) {
		uint32_t limit = limit_of(s, match);
		double is;

		if (limit <= best)
			continue;
		is = worth(s->text, m->at[match - 1], limit);
		if (is <= best)
			continue;
		best = is;
		s->root = m->at[match - 1];
		s->match = match;
		s->limit = limit;
	}
}

/* ---- the source ---------------------------------------------------------- */

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct suffix *s = arg;
	struct suffix_matches m;
	int ret;

	if (same < suffix_tree_tokens(s->text)) {
		suffix_tree_clear(s->text);
		same = 0;
	}
	ret = suffix_tree_append(s->text, text + same, n - same, e);
	if (ret)
		return ret;
	suffix_tree_live(s->text, &m);
	choose(s, &m);
	return 0;
}

static void root(void *arg, struct source_place *p)
{
	const struct suffix *s = arg;

	p->at[0] = s->root.node;
	p->at[1] = s->root.at;
	p->at[2] = s->limit > 0;
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	const struct suffix *s = arg;
	struct suffix_place at = { p->at[0], p->at[1] };

	p->at[2] = p->at[2] && suffix_tree_step(s->text, &at, token);
	p->at[0] = at.node;
	p->at[1] = at.at;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	const struct suffix *s = arg;
	const struct suffix_place at = { p->at[0], p->at[1] };
	struct suffix_next next[SUFFIX_RARE];
	uint32_t n, count;

	if (!p->at[2] || depth >= s->limit)
		return 0;
	n = suffix_tree_next(s->text, &at, next);
	count = suffix_tree_count(s->text, &at);
	if (n > most)
		n = most;
	for (uint32_t i = 0; i < n; i++)
		out[i] = (struct source_guess){ .token = next[i].token,
			.share = (float)next[i].count / (float)count,
			.match = s->match };
	return n;
}

static void close_suffix(void *arg)
{
	struct suffix *s = arg;

	suffix_tree_close(s->text);
	free(s);
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct suffix *s = calloc(1, sizeof(*s));
	struct source source = { .arg = s,
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.close = close_suffix };
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory to draft from suffixes");
	s->opts = *(const struct suffix_options *)opt_values_of(
		site->values, &table);
	ret = suffix_tree_open(&s->text, e);
	if (ret) {
		free(s);
		return ret;
	}
	return source_drafter_open(out, &source, e);
}

const struct draft_kind draft_kind_suffix = {
	.name = "suffix",
	.summary = "what came where the text's end stood before, by how often "
		   "(SuffixDecoding)",
	.title = "suffixes of the text",
	.options = &table,
	.open = open_kind,
};
