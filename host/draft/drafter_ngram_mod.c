/*
 * llama.cpp's ngram-mod, reimplemented from its description; the name in
 * --draft is `ngram-mod`. A table of 16 MiB maps the hash of 24 tokens to the
 * token that followed them. A draft is made by repeated look-ups: each found
 * token is appended to the draft, and the next look-up hashes the last 24
 * tokens, which include the draft. A draft has at most 64 tokens; a draft of
 * fewer than 48 tokens is dropped. The table persists across requests. The
 * whole table is cleared when five drafts in a row fail or when the table is
 * too full (PLACES_MOST).
 */
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/lookup.h"
#include "tensor/soc/price_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLACES (1u << 22)
/* If more entries than this are in use when a sequence begins, the table is
 * cleared. */
#define PLACES_MOST (PLACES / 4)
/* minimum number of new tokens that are put into the table at once */
#define CHUNK 32
/* number of consecutive failed drafts after which the table is cleared */
#define FAILURES    5
#define MATCH_MOST  256
#define LENGTH_MOST 255

struct ngram_mod_options {
	uint32_t match, least, most;
};

/* clang-format off */
#define IN(field) OPT_IN(ngram_mod_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "ngram-mod-match", IN(match), "N",
		"drafter ngram-mod: number of last tokens to find in earlier "
		"text, by their hash ({}; 4 is better where copied passages "
		"are short)", 1, MATCH_MOST },
	{ OPT_UINT, 0, "ngram-mod-min", IN(least), "N",
		"drafter ngram-mod: drop drafts of fewer than N tokens ({}; 2 "
		"is better where copied passages are short)", 1, LENGTH_MOST },
	{ OPT_UINT, 0, "ngram-mod-max", IN(most), "N",
		"drafter ngram-mod: maximum number of tokens in a draft ({}; "
		"24 is better where copied passages are short)",
		1, LENGTH_MOST },
};
/* clang-format on */

static const struct opt_table table = OPT_TABLE_INIT("drafts", option_rows,
	ngram_mod_options, .match = 24, .least = 48, .most = 64);

struct ngram_mod {
	struct ngram_mod_options o;
	/* [PLACES] for each hash of o.match tokens: 1 + the token that followed
	 * them; 0 if unknown */
	int32_t *next;
	uint32_t used;
	size_t n; /* number of the sequence's tokens that are in the table */
	/* length of the sequence, in tokens, at the previous call of find(), if
	 * that call made a draft; otherwise 0 */
	size_t drafted;
	unsigned failed;
	struct search_work work;
};

/* Returns the table entry for token[o.match]. The entry holds the token that
 * followed these tokens. */
static int32_t *place_of(struct ngram_mod *m, const int32_t *token)
{
	uint64_t hash = 0;
	uint32_t n = m->o.match;

	for (uint32_t i = 0; i < n; i++)
		hash = hash * 6364136223846793005u + (uint32_t)token[i] + 1;
	hash *= 0x9e3779b97f4a7c15u;
	m->work.values += n;
	m->work.steps++;
	return &m->next[hash >> 42];
}

/* ---- learning and drafting ----------------------------------------------- */

static void forget(struct ngram_mod *m)
{
	memset(m->next, 0, PLACES * sizeof(*m->next));
	m->used = 0;
	m->failed = 0;
	m->n = 0;
}

static int find(void *arg, const int32_t *text, size_t n, size_t same,
	struct lookup_chain *c, struct err *e)
{
	struct ngram_mod *m = arg;
	int32_t path[MATCH_MOST + LENGTH_MOST], next;
	uint32_t match = m->o.match;
	size_t accepted = 0, most;

	/* If the sequence does not continue the previous sequence, clear the
	 * table if more than PLACES_MOST entries are in use. */
	if (same < m->n || same < m->drafted) {
		if (m->used > PLACES_MOST)
			forget(m);
		m->n = 0;
	} else if (m->drafted && n > m->drafted && c->n) {
		/* The previous draft failed if verification rejected one of its
		 * tokens and accepted less than a quarter of its tokens. If
		 * verification stopped before a rejected token, for example at
		 * the end of the text, the draft has not failed. */
		most = n - m->drafted < c->n ? n - m->drafted : c->n;
		while (accepted < most &&
			text[m->drafted + accepted] == c->token[accepted])
			accepted++;
		m->failed = accepted < most && 4 * accepted < c->n
			? m->failed + 1
			: 0;
		if (m->failed == FAILURES)
			forget(m);
	}

	if (n >= m->n + CHUNK) {
		for (size_t i = m->n > match ? m->n : match; i < n; i++) {
			int32_t *place = place_of(m, text + i - match);

			m->used += !*place;
			*place = text[i] + 1;
		}
		m->n = n;
	}
	c->n = 0;
	c->match = match;
	if (n >= match) {
		memcpy(path, text + n - match, match * sizeof(*path));
		while (c->n < m->o.most && (next = *place_of(m, path + c->n)))
			path[match + c->n++] = next - 1;
		memcpy(c->token, path + match, c->n * sizeof(*path));
	}
	if (c->n < m->o.least)
		c->n = 0;
	m->drafted = c->n ? n : 0;
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static void close_mod(void *arg)
{
	struct ngram_mod *m = arg;

	free(m->next);
	free(m);
}

static uint32_t length(const struct opt_values *values)
{
	const struct ngram_mod_options *o = opt_values_of(values, &table);

	return o->most;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	const struct ngram_mod_options *o = opt_values_of(site->values, &table);
	struct ngram_mod *m;
	struct lookup lookup = { NULL, NULL, find, close_mod };

	if (o->least > o->most)
		return err_set(e, EINVAL,
			"--ngram-mod-min %u is more than --ngram-mod-max %u, "
			"so nothing would be drafted",
			o->least, o->most);
	m = calloc(1, sizeof(*m));
	if (m)
		m->next = calloc(PLACES, sizeof(*m->next));
	if (!m || !m->next) {
		free(m);
		return err_set(e, ENOMEM, "no memory for a table of n-grams");
	}
	m->o = *o;
	lookup.arg = m;
	lookup.work = &m->work;
	return lookup_drafter_open(out, &lookup, o->most, e);
}

const struct draft_kind draft_kind_ngram_mod = {
	.name = "ngram-mod",
	.summary = "hash table: tokens that once followed the last 24 tokens",
	.title = "a table of n-grams",
	.options = &table,
	.length = length,
	.open = open_kind,
};
