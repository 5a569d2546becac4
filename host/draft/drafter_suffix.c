/*
 * SuffixDecoding (Oliaro et al., NeurIPS 2025): suffix trees count, for every
 * suffix of the sequence, how often each token followed the suffix at earlier
 * places.
 * Several suffixes can match, and each match gives a draft. The draft with the
 * highest expected number of accepted tokens is used. This number is the sum,
 * over the tokens of the draft's likeliest path, of the probability that
 * verification
 * accepts the path up to the token. Tokens that followed in less than a tenth
 * of the occurrences are left out.
 *
 * There is one tree for the sequence and, if a history is kept, one for the
 * history. A token tree takes candidates from both trees; a chain comes from
 * the tree with the better draft.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/draft/suffix_tree.h"
#include "host/text/history.h"

#include <errno.h>
#include <stdlib.h>

#define NOWHERE UINT32_MAX

struct suffix_options {
	double factor;
	uint32_t offset;
};

#define IN(field) OPT_IN(suffix_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "suffix-factor", IN(factor), "F",
		"drafter suffix: length of a draft, as a multiple of the "
		"number of last tokens that occur in earlier text ({})",
		0, SUFFIX_DEPTH },
	{ OPT_UINT, 0, "suffix-offset", IN(offset), "N",
		"drafter suffix: number of tokens to add to the length of a "
		"draft by --suffix-factor ({})",
		0, SUFFIX_DEPTH },
};

static const struct opt_table table = {
	.heading = "drafts",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct suffix_options){ .factor = 1 },
	.size = sizeof(struct suffix_options),
};

enum { TEXT, HISTORY, MEMORIES };

struct memory {
	/* the suffix tree; NULL for the history if no history is kept */
	struct suffix_tree *tree;
	struct suffix_matches matches;
	/* root: place in the tree of the match from which the draft is made.
	 * match: length of the match. limit: maximum length of the draft.
	 * worth: expected number of the draft's accepted tokens. */
	struct suffix_place root;
	uint32_t match, limit;
	double worth;
};

struct suffix {
	struct suffix_options opts;
	const struct history *history;
	/* Sources that share a history all use the history tree and `last` of
	 * *shared, the source that was opened first, which can be this
	 * source. */
	struct suffix *shared;
	/* number (history_record.number) of the history record that was added
	 * to the history tree most recently */
	uint64_t last;
	/* value of shared->last when memory[HISTORY] was last updated */
	uint64_t seen;
	struct memory memory[MEMORIES];
	struct search_work work;
};

/* ---- choice of a match --------------------------------------------------- */

static uint32_t limit_of(const struct suffix_options *o, uint32_t match)
{
	double limit = o->factor * match + o->offset;
	uint32_t room = SUFFIX_DEPTH - match;

	return limit < room ? (uint32_t)limit : room;
}

/* Returns the expected number of accepted tokens of the likeliest path from
 * place `p` of the tree, limited to `limit` tokens. */
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

/* Choose the match with the best draft: the draft with the highest expected
 * number of accepted tokens. This number never exceeds a draft's length, so a
 * match is skipped if its draft is no longer than the best number so far. */
static void choose(const struct suffix *s, struct memory *m)
{
	m->match = m->limit = 0;
	m->worth = 0;
	for (uint32_t match = m->matches.n; match; match--) {
		uint32_t limit = limit_of(&s->opts, match);
		double is;

		if (limit <= m->worth)
			continue;
		is = worth(m->tree, m->matches.at[match - 1], limit);
		if (is <= m->worth)
			continue;
		m->worth = is;
		m->root = m->matches.at[match - 1];
		m->match = match;
		m->limit = limit;
	}
}

/* ---- the source ---------------------------------------------------------- */

/* From now on, count the work in the history's tree as this source's work. */
static void count_work(struct suffix *s)
{
	if (s->memory[HISTORY].tree)
		suffix_tree_set_work(s->memory[HISTORY].tree, &s->work);
}

/* Add to the history's tree the records that the history has received since the
 * previous call. If records are added, all matches in this tree are invalid. */
static int take_history(struct suffix *s, struct err *e)
{
	struct suffix_tree *t = s->memory[HISTORY].tree;
	size_t n = t ? history_count(s->history) : 0;
	size_t i = t ? history_after(s->history, s->shared->last) : 0;

	for (; i < n; i++) {
		struct history_record r = history_at(s->history, i);
		int ret = suffix_tree_append(t, r.id, r.n, e);

		if (!ret)
			ret = suffix_tree_end(t, e);
		if (ret) {
			suffix_tree_clear(t);
			s->shared->last = 0;
			return ret;
		}
		s->shared->last = r.number;
	}
	return 0;
}

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct suffix *s = arg;
	struct memory *own = &s->memory[TEXT], *old = &s->memory[HISTORY];
	size_t known = suffix_tree_tokens(own->tree);
	int ret = 0;

	count_work(s);
	if (!known || same < known) {
		suffix_tree_clear(own->tree);
		old->matches.n = 0;
		same = 0;
		ret = take_history(s, e);
	}
	if (!ret)
		ret = suffix_tree_append(own->tree, text + same, n - same, e);
	if (ret)
		return ret;
	suffix_tree_live(own->tree, &own->matches);
	if (s->seen != s->shared->last) {
		old->matches.n = 0;
		same = 0;
	}
	s->seen = s->shared->last;
	for (size_t i = same; old->tree && i < n; i++)
		suffix_tree_follow(old->tree, &old->matches, text[i]);
	choose(s, own);
	choose(s, old);
	return 0;
}

/* Whether the stored places in the tree (suffix_place) are valid. The places
 * are invalid if another source has added records to the history's tree after
 * this source's take(). */
static bool valid(const struct suffix *s, unsigned memory)
{
	return memory == TEXT || s->seen == s->shared->last;
}

/* A source_place holds a node and an index `at` for each of the two trees. */
static void root(void *arg, struct source_place *p)
{
	const struct suffix *s = arg;

	for (unsigned i = 0; i < MEMORIES; i++) {
		p->at[2 * i] = s->memory[i].limit && valid(s, i)
			? s->memory[i].root.node
			: NOWHERE;
		p->at[2 * i + 1] = s->memory[i].root.at;
	}
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	struct suffix *s = arg;

	count_work(s);
	for (unsigned i = 0; i < MEMORIES; i++) {
		struct suffix_place at = { p->at[2 * i], p->at[2 * i + 1] };

		if (at.node == NOWHERE || !valid(s, i) ||
			!suffix_tree_step(s->memory[i].tree, &at, token))
			at.node = NOWHERE;
		p->at[2 * i] = at.node;
		p->at[2 * i + 1] = at.at;
	}
}

static uint32_t put_guesses(const struct suffix *s, unsigned memory,
	const struct source_place *p, uint32_t depth, struct source_guess *out,
	uint32_t most)
{
	const struct memory *m = &s->memory[memory];
	const struct suffix_place at = { p->at[2 * memory],
		p->at[2 * memory + 1] };
	struct suffix_next next[SUFFIX_RARE];
	uint32_t n, count;

	if (at.node == NOWHERE || !valid(s, memory) || depth >= m->limit)
		return 0;
	n = suffix_tree_next(m->tree, &at, next);
	count = suffix_tree_count(m->tree, &at);
	if (n > most)
		n = most;
	for (uint32_t i = 0; i < n; i++)
		out[i] = (struct source_guess){ next[i].token,
			(float)next[i].count / (float)count, memory, m->match };
	return n;
}

/* A chain (most == 1) comes from the tree whose draft has the higher expected
 * number of accepted tokens; a token tree takes guesses from both trees. */
static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct suffix *s = arg;
	const struct memory *m = s->memory;
	uint32_t n;

	count_work(s);
	if (most == 1)
		return put_guesses(s, m[HISTORY].worth > m[TEXT].worth, p,
			depth, out, most);
	n = put_guesses(s, TEXT, p, depth, out, most);
	return n + put_guesses(s, HISTORY, p, depth, out + n, most - n);
}

static void close_suffix(void *arg)
{
	struct suffix *s = arg;

	suffix_tree_close(s->memory[TEXT].tree);
	if (s->shared == s)
		suffix_tree_close(s->memory[HISTORY].tree);
	free(s);
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct suffix *s = calloc(1, sizeof(*s));
	const struct source source = { .arg = s,
		.work = s ? &s->work : NULL,
		.from = { [HISTORY] = SOURCE_HISTORY },
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.close = close_suffix };
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory for --draft suffix");
	s->opts = *(const struct suffix_options *)opt_values_of(
		site->values, &table);
	s->history = site->history;
	s->shared = site->like ? source_drafter_arg(site->like) : s;
	ret = suffix_tree_open(&s->memory[TEXT].tree, &s->work, e);
	if (site->like)
		s->memory[HISTORY].tree = s->shared->memory[HISTORY].tree;
	else if (!ret && s->history)
		ret = suffix_tree_open(&s->memory[HISTORY].tree, &s->work, e);
	if (ret) {
		close_suffix(s);
		return ret;
	}
	return source_drafter_open(out, &source, e);
}

static uint32_t length(const struct opt_values *values)
{
	const struct suffix_options *o = opt_values_of(values, &table);
	uint32_t most = 0;

	for (uint32_t match = 1; match < SUFFIX_DEPTH; match++)
		if (limit_of(o, match) > most)
			most = limit_of(o, match);
	return most;
}

const struct draft_kind draft_kind_suffix = {
	.name = "suffix",
	.summary = "SuffixDecoding: tokens that often followed the last tokens",
	.title = "suffixes",
	.options = &table,
	.length = length,
	.open = open_kind,
};
