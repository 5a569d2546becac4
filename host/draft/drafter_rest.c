/*
 * REST (He et al., NAACL 2024): drafts tokens that followed the sequence's last
 * tokens in a datastore. The datastore holds the history of earlier requests
 * and, for rest:FILE, a text file. The drafter finds the longest suffix of the
 * sequence, of 2 to 16 tokens, that occurs in the datastore, and takes up to
 * 5000 continuations of 10 tokens each. The 64 most frequent prefixes of the
 * continuations are the draft; the probability of a prefix is proportional to
 * its count.
 *
 * If the suffix occurs more than 5000 times, the paper uses its first 5000
 * occurrences (hits). Here the hits are sorted by their continuation, so the
 * first 5000 hits would have similar continuations. Therefore 5000 hits that
 * are evenly spread over all hits are used.
 */
#include "base/err.h"
#include "base/fd.h"
#include "host/draft/datastore.h"
#include "host/draft/draft_kind.h"
#include "host/draft/source.h"
#include "host/model/model.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>

#define SPAN_MOST  16
#define SPAN_LEAST 2
#define HITS       5000
#define FURTHER    (DATASTORE_REACH - SPAN_MOST)
#define NODES      64
#define NOWHERE    UINT32_MAX
#define MAX_FILE   ((size_t)256 << 20)

/* A prefix of the continuations: the prefix's last token, and the range of hits
 * whose continuation begins with this prefix. */
struct beginning {
	int32_t token;
	uint32_t above; /* index in `node` of the parent; 0 is the root */
	uint32_t first, end;
	uint32_t depth;
};

struct rest {
	/* Sources that share a datastore all use the members history, last and
	 * store of *shared, the source that was opened first, which can be this
	 * source. */
	struct rest *shared;
	const struct history *history;
	/* number of the last history record that was added to the store */
	uint64_t last;
	struct datastore store;
	/* number of tokens of the current sequence; 0 before the first
	 * take() */
	size_t n;
	/* The match is the longest suffix of the sequence that occurs in the
	 * store. The hits are the store's suffixes that begin with the match;
	 * they are adjacent in store.suffix. span: length of the match. found:
	 * number of hits. found_first: index of the first hit in store.suffix.
	 * hits: number of hits that are used. */
	uint32_t span;
	size_t found, found_first;
	uint32_t hits;
	/* [n_nodes] the root, then the other nodes by descending count */
	struct beginning node[NODES + 1];
	uint32_t n_nodes;
	struct search_work work;
};

/* ---- hits ---------------------------------------------------------------- */

/* Binary search for the length of the longest match: if a suffix of the
 * sequence occurs in the store, so do all shorter suffixes. */
static void look_up(struct rest *r, const int32_t *text, size_t n)
{
	const struct datastore *store = &r->shared->store;
	uint32_t low = SPAN_LEAST,
		 high = n < SPAN_MOST ? (uint32_t)n : SPAN_MOST;

	r->hits = r->span = 0;
	while (low <= high) {
		uint32_t span = (low + high) / 2;
		size_t first, end;

		datastore_find(store, text + n - span, span, &first, &end);
		/* Count two binary searches. Each comparison loads an element
		 * of store.suffix and the first tokens of this suffix, and
		 * compares up to `span` tokens. */
		for (size_t left = store->n_suffixes; left; left /= 2) {
			r->work.steps += 4;
			r->work.values += 2ull * span;
		}
		if (first == end) {
			high = span - 1;
			continue;
		}
		low = span + 1;
		r->span = span;
		r->found = end - first;
		r->found_first = first;
		r->hits = r->found < HITS ? (uint32_t)r->found : HITS;
	}
}

/* Returns token number `depth` (from 0) after the match, for hit number
 * `hit`. */
static int32_t token_after(struct rest *r, uint32_t hit, uint32_t depth)
{
	const struct datastore *store = &r->shared->store;
	size_t at = r->found_first + hit * r->found / r->hits;

	r->work.steps += 2;
	return store->token[store->suffix[at] + r->span + depth];
}

/* Returns the end of the run of consecutive hits, from `first` on, that have
 * the same token at `depth`. The search ends at `end`. */
static uint32_t end_of_run(
	struct rest *r, uint32_t first, uint32_t end, uint32_t depth)
{
	int32_t token = token_after(r, first, depth);
	uint32_t low = first, high = end, step = 1;

	while (low + step < high &&
		token_after(r, low + step, depth) == token) {
		low += step;
		step *= 2;
	}
	if (low + step < high)
		high = low + step;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (token_after(r, middle, depth) == token)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* ---- the most frequent prefixes ------------------------------------------ */

struct queue {
	/* [n] prefixes, the most frequent first; memory for `room` prefixes */
	struct beginning *item;
	uint32_t n, room;
};

static uint32_t count(const struct beginning *b)
{
	return b->end - b->first;
}

/* Insert an item into the queue, sorted by descending count; of items with
 * equal counts, the one inserted first comes first. If there is no room, drop
 * the least frequent item. */
static void put(struct queue *q, struct beginning new)
{
	uint32_t at = q->n;

	if (q->n == q->room && (!q->n || count(&q->item[--at]) >= count(&new)))
		return;
	q->n = at + 1;
	for (; at && count(&q->item[at - 1]) < count(&new); at--)
		q->item[at] = q->item[at - 1];
	q->item[at] = new;
}

/* Put the children of a node into the queue. A child is the node's prefix,
 * extended by one next token. DATASTORE_END is left out, because nothing
 * follows it. */
static void put_next(struct rest *r, struct queue *q, uint32_t node)
{
	const struct beginning *b = &r->node[node];

	for (uint32_t at = b->first; at < b->end && b->depth < FURTHER;) {
		uint32_t end = end_of_run(r, at, b->end, b->depth);
		int32_t token = token_after(r, at, b->depth);

		if (token != DATASTORE_END)
			put(q,
				(struct beginning){
					token, node, at, end, b->depth + 1 });
		at = end;
	}
}

/* ---- the source ---------------------------------------------------------- */

/* Add to the datastore the records that the history got since the last call. */
static int take_history(struct rest *to, struct err *e)
{
	size_t n = to->history ? history_count(to->history) : 0;
	size_t i = n ? history_after(to->history, to->last) : 0;

	for (; i < n; i++) {
		struct history_record record = history_at(to->history, i);
		int ret = datastore_add(&to->store, record.id, record.n, e);

		if (ret)
			return ret;
		to->last = record.number;
	}
	return datastore_sort(&to->store, e);
}

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct rest *r = arg;
	struct beginning item[NODES];
	struct queue q = { item, 0, NODES };
	int ret = same < r->n || !r->n ? take_history(r->shared, e) : 0;

	if (ret)
		return ret;
	r->n = n;
	look_up(r, text, n);

	r->node[0] = (struct beginning){ .end = r->hits };
	r->n_nodes = 1;
	put_next(r, &q, 0);
	while (q.n) {
		uint32_t node = r->n_nodes++;

		r->node[node] = *q.item++;
		q.n--;
		q.room--;
		put_next(r, &q, node);
	}
	return 0;
}

static void root(void *arg, struct source_place *p)
{
	p->at[0] = 0;
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	struct rest *r = arg;
	uint32_t above = p->at[0];

	r->work.values += r->n_nodes;
	p->at[0] = NOWHERE;
	for (uint32_t i = 1; i < r->n_nodes; i++)
		if (r->node[i].above == above && r->node[i].token == token)
			p->at[0] = i;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	struct rest *r = arg;
	uint32_t n = 0;

	if (p->at[0] == NOWHERE)
		return 0;
	r->work.values += r->n_nodes;
	for (uint32_t i = 1; i < r->n_nodes && n < most; i++)
		if (r->node[i].above == p->at[0])
			out[n++] = (struct source_guess){
				.token = r->node[i].token,
				.share = (float)count(&r->node[i]) /
					(float)count(&r->node[p->at[0]]),
				.match = r->span
			};
	return n;
}

static void close_rest(void *arg)
{
	struct rest *r = arg;

	datastore_release(&r->store);
	free(r);
}

/* ---- opening ------------------------------------------------------------- */

static int add_file(
	struct rest *r, const struct draft_site *site, struct err *e)
{
	struct token_list ids = { 0 };
	struct tokenizer *tok;
	char *text;
	size_t len;
	int ret = fd_read_file(site->word, MAX_FILE, &text, &len, e);

	if (ret)
		return ret;
	ret = tokenizer_open(&tok, site->target->gguf, e);
	if (!ret) {
		ret = tokenize(tok, text, len, 0, NULL, 0, &ids, e);
		if (!ret)
			ret = datastore_add(&r->store, ids.id, ids.n, e);
		free(ids.id);
		tokenizer_close(tok);
	}
	free(text);
	return ret;
}

/* Open a drafter of the kind rest or rest:FILE. `word` is the name of the file,
 * or empty for the kind rest. */
static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct rest *r = calloc(1, sizeof(*r));
	const struct source source = { .arg = r,
		.work = r ? &r->work : NULL,
		.from = { SOURCE_HISTORY },
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.close = close_rest };
	int ret = 0;

	if (!r)
		return err_set(e, ENOMEM, "no memory for --draft rest");
	r->shared = site->like ? source_drafter_arg(site->like) : r;
	r->history = site->history;
	if (site->like)
		return source_drafter_open(out, &source, e);
	if (!*site->word && !site->history)
		ret = err_set(e, EINVAL,
			"--draft rest needs a history to search; name one with "
			"--history, or a file of text with rest:FILE");
	else if (*site->word)
		ret = add_file(r, site, e);
	if (!ret)
		ret = datastore_sort(&r->store, e);
	if (ret) {
		close_rest(r);
		return ret;
	}
	return source_drafter_open(out, &source, e);
}

static uint32_t length(const struct opt_values *values)
{
	return FURTHER;
}

static int check_file(const char *said, const char *word, struct err *e)
{
	if (*word)
		return 0;
	return err_set(e, EINVAL,
		"--draft '%s': the name of a text file is "
		"missing after rest:",
		said);
}

const struct draft_kind draft_kind_rest = {
	.name = "rest",
	.summary = "tokens that often followed the last tokens, in --history",
	.title = "a datastore",
	.length = length,
	.open = open_kind,
};

const struct draft_kind draft_kind_rest_file = {
	.name = "rest:",
	.shown = "rest:FILE",
	.summary = "as rest, but searches --history and the text file FILE",
	.title = "a datastore",
	.check = check_file,
	.length = length,
	.open = open_kind,
};
