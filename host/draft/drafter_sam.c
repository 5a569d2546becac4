#include "host/draft/drafter_sam.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/draft/suffix_automaton.h"
#include "host/text/history.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define MOST 255 /* maximum number of tokens of a chain */

enum origin {
	FIRST_PLACE,
	HISTORY,
	OTHER_PLACES,
	LESS_OF_HISTORY,
};

struct sam {
	struct sam_options o;
	struct suffix_automaton *text;
	/* Sources that share a history all use the members records, read and
	 * history of *shared, the source that was opened first, which can be
	 * this source. */
	struct sam *shared;
	/* history of earlier requests; NULL if no history is kept; borrowed */
	const struct history *records;
	/* number of the last record that was added to `history` */
	uint64_t read;
	/* automaton of the history; NULL if no history is kept */
	struct suffix_automaton *history;
	/* The longest suffix of the sequence that occurs in the history; valid
	 * while shared->read equals past_read. */
	struct suffix_match past;
	uint64_t past_read;
	/* Result of the paper's rule (drafter_sam.h) for the draft after the
	 * sequence: whether the chain comes from the history, and the chain's
	 * number of tokens. */
	bool by_history;
	uint32_t length;
	struct search_work work;
};

/* ---- the sequence and the history ---------------------------------------- */

/* Returns the automaton of the history, or NULL. From now on, the work of this
 * automaton counts as the work of source `s`. */
static struct suffix_automaton *history_of(struct sam *s)
{
	if (s->shared->history)
		suffix_automaton_set_work(s->shared->history, &s->work);
	return s->shared->history;
}

/* Add new records of the history to the history's automaton. All matches in the
 * automaton (struct suffix_match) are then invalid. */
static int read_records(struct sam *s, struct err *e)
{
	struct suffix_automaton *a = history_of(s);
	struct sam *to = s->shared;
	size_t n = a ? history_count(to->records) : 0;
	size_t i = n ? history_after(to->records, to->read) : 0;

	for (; i < n; i++) {
		struct history_record r = history_at(to->records, i);
		int ret = suffix_automaton_add(a, r.id, r.n, e);

		if (ret) {
			suffix_automaton_clear(a);
			to->read = 0;
			return ret;
		}
		to->read = r.number;
	}
	return 0;
}

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct sam *s = arg;
	size_t had = suffix_automaton_tokens(s->text);
	struct suffix_automaton *history = history_of(s);
	uint32_t here, there, match;
	double length;
	int ret;

	if (same < had) {
		suffix_automaton_clear(s->text);
		had = 0;
	}
	ret = suffix_automaton_add(s->text, text + had, n - had, e);
	if (!ret)
		ret = read_records(s, e);
	if (ret) {
		suffix_automaton_clear(s->text);
		return ret;
	}

	if (s->past_read != s->shared->read)
		had = 0;
	s->past_read = s->shared->read;
	if (!had)
		s->past = (struct suffix_match){ 0 };
	for (size_t i = had; i < n && history; i++)
		suffix_automaton_follow(history, &s->past, text[i]);

	here = suffix_automaton_end(s->text).len;
	there = s->past.len > s->o.bias ? s->past.len - s->o.bias : 0;
	s->by_history = there > here;
	match = s->by_history ? there : here;
	length = 1 + floor(s->o.alpha * match);
	length = fmin(fmax(length, s->o.least), s->o.most);
	s->length = match ? (uint32_t)length - 1 : 0;
	return 0;
}

/* ---- matches in a source_place ------------------------------------------- */

/* A source_place stores two matches: one in the automaton of the sequence, and
 * one in the automaton of the history. */
static struct suffix_match in_text(const struct source_place *p)
{
	return (struct suffix_match){ p->at[0], p->at[1] };
}

static struct suffix_match in_history(const struct source_place *p)
{
	return (struct suffix_match){ p->at[2], p->at[3] };
}

static struct source_place place_of(
	struct suffix_match text, struct suffix_match past)
{
	return (struct source_place){ { text.state, text.len, past.state,
		past.len } };
}

static void root(void *arg, struct source_place *p)
{
	const struct sam *s = arg;
	bool valid = s->past_read == s->shared->read;

	*p = place_of(suffix_automaton_end(s->text),
		valid ? s->past : (struct suffix_match){ 0 });
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	struct sam *s = arg;
	struct suffix_automaton *history = history_of(s);
	struct suffix_match text = in_text(p), past = in_history(p);

	suffix_automaton_follow(s->text, &text, token);
	if (history)
		suffix_automaton_follow(history, &past, token);
	*p = place_of(text, past);
}

/* ---- guesses ------------------------------------------------------------- */

struct list {
	struct source_guess *guess; /* [n] */
	uint32_t n, most;
	/* probability that is left for the guesses from shorter matches in the
	 * same automaton */
	float left;
};

/* Number of matched tokens that belong to the sequence; the last `depth`
 * matched tokens are drafted tokens. */
static uint32_t grounds(struct suffix_match m, uint32_t depth)
{
	return m.len > depth ? m.len - depth : 0;
}

static bool among(const struct list *l, uint32_t from, int32_t token)
{
	for (uint32_t i = from; i < l->n; i++)
		if (l->guess[i].token == token)
			return true;
	return false;
}

/* Add guesses for the children of one state, except tokens that are already in
 * the list from index `first` on. Each automaton adds at most o.children
 * guesses. */
static void put_state(const struct sam *s, struct suffix_automaton *a,
	struct list *l, uint32_t first, struct suffix_match m,
	struct source_guess like)
{
	struct suffix_child child[SUFFIX_CHILDREN];
	uint32_t n =
		suffix_automaton_children(a, m.state, child, s->o.children);
	bool counts = a != s->text;
	/* Number of occurrences of the state, plus one for each distinct child;
	 * the added number stands for tokens not seen yet. So the token after a
	 * match that occurred once gets the probability 1/2 (Moffat's PPMC,
	 * 1990). The automaton of the sequence has no counts, so there each
	 * child counts as one occurrence. */
	float places = counts ? (float)(suffix_automaton_count(a, m.state) + n)
			      : 2 * (float)n;

	for (uint32_t i = 0; i < n && l->n < l->most; i++) {
		uint32_t times;

		if (l->n - first == s->o.children)
			break;
		if (among(l, first, child[i].token))
			continue;
		like.token = child[i].token;
		times = counts ? suffix_automaton_count(a, child[i].state) : 1;
		like.share = l->left * (float)times / places;
		l->guess[l->n++] = like;
	}
	if (n)
		l->left *= (float)n / places;
}

static void put_first(const struct sam *s, struct list *l,
	struct suffix_match m, uint32_t depth)
{
	uint32_t at = suffix_automaton_first(s->text, m.state);

	if (m.len && at < suffix_automaton_tokens(s->text))
		l->guess[l->n++] = (struct source_guess){ suffix_automaton_text(
								  s->text)[at],
			1, FIRST_PLACE, grounds(m, depth) };
}

/* Add the token that followed the first occurrence of the match, then tokens
 * that followed other occurrences, then tokens that followed ever shorter
 * suffixes of the match. */
static void put_text(const struct sam *s, struct list *l, struct suffix_match m,
	uint32_t depth)
{
	uint32_t first = l->n;

	put_first(s, l, m, depth);
	l->left = 1;
	for (; m.len && l->n - first < s->o.children;
		m = suffix_automaton_shorter(s->text, m))
		put_state(s, s->text, l, first, m,
			(struct source_guess){ .origin = OTHER_PLACES,
				.match = grounds(m, depth) });
}

static void put_history(const struct sam *s, struct suffix_automaton *history,
	struct list *l, struct suffix_match m, uint32_t depth)
{
	uint32_t first = l->n, origin = HISTORY;

	l->left = 1;
	for (; m.len && l->n - first < s->o.children;
		m = suffix_automaton_shorter(history, m)) {
		put_state(s, history, l, first, m,
			(struct source_guess){
				.origin = origin, .match = grounds(m, depth) });
		origin = LESS_OF_HISTORY;
	}
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct sam *s = arg;
	struct suffix_automaton *history = history_of(s);
	struct suffix_match past = in_history(p);
	struct list l = { out, 0, most, 1 };

	if (most == 1) {
		/* Add the token that the paper's rule chooses (drafter_sam.h),
		 * unless the draft already has the length that the rule
		 * allows. */
		if (depth < s->length && !s->by_history)
			put_first(s, &l, in_text(p), depth);
		else if (depth < s->length && past.len)
			put_state(s, history, &l, 0, past,
				(struct source_guess){ .origin = HISTORY,
					.match = grounds(past, depth) });
	} else if (depth + 1 < s->o.most) {
		put_text(s, &l, in_text(p), depth);
		put_history(s, history, &l, past, depth);
	}
	return l.n;
}

/* ---- opening ------------------------------------------------------------- */

static void close_sam(void *arg)
{
	struct sam *s = arg;

	suffix_automaton_close(s->text);
	suffix_automaton_close(s->history);
	free(s);
}

int sam_source_open(struct source *out, const struct sam_options *o,
	const struct history *records, void *like, struct err *e)
{
	struct sam *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory for a suffix automaton");
	s->o = *o;
	s->shared = like ? like : s;
	s->records = records;
	ret = suffix_automaton_open(&s->text, SUFFIX_TEXT, &s->work, e);
	if (!ret && records && !like)
		ret = suffix_automaton_open(
			&s->history, SUFFIX_HISTORY, &s->work, e);
	if (!ret)
		ret = read_records(s, e);
	if (ret) {
		close_sam(s);
		return ret;
	}
	*out = (struct source){ .arg = s,
		.work = &s->work,
		.from = { [HISTORY] = SOURCE_HISTORY,
			[LESS_OF_HISTORY] = SOURCE_HISTORY },
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.close = close_sam };
	return 0;
}

/* ---- the kind of drafter (draft_kind.h) ---------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(sam_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "sam-alpha", IN(alpha), "A",
		"drafter sam: maximum length of a drafted chain, as a multiple "
		"of the number of last tokens that occur in earlier text ({})",
		0, 1000 },
	{ OPT_UINT, 0, "sam-min", IN(least), "N",
		"drafter sam: minimum length of a drafted chain in tokens, "
		"counting the last generated token ({}; sd.npu's version: 10)",
		0, MOST + 1 },
	{ OPT_UINT, 0, "sam-max", IN(most), "N",
		"drafter sam: maximum length of a drafted chain in tokens, "
		"counting the last generated token ({})",
		2, MOST + 1 },
	{ OPT_UINT, 0, "sam-children", IN(children), "N",
		"drafter sam: maximum number of children of a node in a "
		"drafted tree, from this request's text and from --history ({} "
		"from each)", 1, SUFFIX_CHILDREN },
	{ OPT_UINT, 0, "sam-bias", IN(bias), "N",
		"drafter sam: draft a chain from --history instead of this "
		"request's text only if the match of last tokens there is more "
		"than N tokens longer ({})", 0, UINT32_MAX },
};
/* clang-format on */

static const struct opt_table table = {
	.heading = "drafts",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults =
		&(const struct sam_options){
			.alpha = 4, .most = 40, .children = 8, .bias = 5 },
	.size = sizeof(struct sam_options),
};

static uint32_t length(const struct opt_values *values)
{
	const struct sam_options *o = opt_values_of(values, &table);

	return o->most - 1;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct source source;
	int ret = sam_source_open(&source, opt_values_of(site->values, &table),
		site->history, source_drafter_arg(site->like), e);

	return ret ? ret : source_drafter_open(out, &source, e);
}

const struct draft_kind draft_kind_sam = {
	.name = "sam",
	.summary = "tokens after the longest earlier match of the last tokens",
	.title = "a suffix automaton",
	.options = &table,
	.length = length,
	.open = open_kind,
};
