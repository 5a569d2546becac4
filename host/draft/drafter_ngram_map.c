/*
 * llama.cpp's ngram-map-k and ngram-map-k4v, reimplemented from their
 * description; the name in --draft is `ngram-map`. The last 12 tokens are the
 * key, and up to 48 tokens that followed the key's last earlier occurrence are
 * drafted. A hash map lists the occurrences of each key. Nothing is drafted
 * unless the sequence has at least two tokens more than a key and a draft
 * together. An occurrence followed by fewer tokens than a key has is not used.
 *
 * If --ngram-map-values is above 1, the map counts up to this number of
 * different continuations of a key. The drafter drafts a continuation only if
 * this continuation occurred at least twice as often as all other continuations
 * of the key together.
 */
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/lookup.h"
#include "tensor/soc/price_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS     (1u << 18)
#define VALUES      4
#define LENGTH_MOST 255

struct ngram_map_options {
	uint32_t key, length, hits, values;
};

/* clang-format off */
#define IN(field) OPT_IN(ngram_map_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "ngram-map-key", IN(key), "N",
		"drafter ngram-map: number of last tokens to find in earlier "
		"text ({}; 3 is better where copied passages are short)",
		1, 1024 },
	{ OPT_UINT, 0, "ngram-map-length", IN(length), "N",
		"drafter ngram-map: maximum number of tokens in a draft ({}; "
		"16 is better where copied passages are short)",
		1, LENGTH_MOST },
	{ OPT_UINT, 0, "ngram-map-hits", IN(hits), "N",
		"drafter ngram-map: draft only if the last --ngram-map-key "
		"tokens occurred at least N times before ({})",
		1, UINT32_MAX },
	{ OPT_UINT, 0, "ngram-map-values", IN(values), "N",
		"drafter ngram-map: maximum number of different continuations "
		"of the last tokens to count; if above 1, draft only a "
		"continuation twice as frequent as all others together ({}; 4: "
		"as llama.cpp's ngram-map-k4v)", 1, VALUES },
};
/* clang-format on */

static const struct opt_table table = OPT_TABLE_INIT("drafts", option_rows,
	ngram_map_options, .key = 12, .length = 48, .hits = 1, .values = 1);

struct ngram_map {
	struct ngram_map_options o;
	/* The map identifies an occurrence of a key by the index after the
	 * key's last token. newest: for each hash value, the newest occurrence
	 * with this hash. older: for each occurrence, the next older occurrence
	 * with the same hash. 0 means none. The map contains the occurrences up
	 * to index `n`. */
	uint32_t *newest; /* [BUCKETS] */
	uint32_t *older;  /* [room] */
	size_t n, room;
	struct search_work work;
};

static uint32_t bucket(const int32_t *key, uint32_t n)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < n; i++)
		hash = (hash ^ (uint32_t)key[i]) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash >> 46);
}

/* ---- the map ------------------------------------------------------------- */

/* Add the key occurrences that are followed by at least as many tokens as a key
 * has. */
static int update(struct ngram_map *m, const int32_t *text, size_t n,
	size_t same, struct err *e)
{
	size_t key = m->o.key, end = n > key ? n - key : 0;
	uint32_t *more;

	if (end >= m->room) {
		more = realloc(m->older, 2 * (end + 1) * sizeof(*more));
		if (!more)
			return err_set(
				e, ENOMEM, "no memory for --draft ngram-map");
		m->older = more;
		m->room = 2 * (end + 1);
	}
	if (m->n && same < m->n + key) {
		memset(m->newest, 0, BUCKETS * sizeof(*m->newest));
		m->n = 0;
	}
	for (size_t at = m->n < key ? key : m->n + 1; at <= end; at++) {
		uint32_t b = bucket(text + at - key, m->o.key);

		m->work.values += key;
		m->work.steps++;
		m->older[at] = m->newest[b];
		m->newest[b] = (uint32_t)at;
	}
	m->n = end;
	return 0;
}

/* ---- drafting ------------------------------------------------------------ */

struct value {
	/* index after the newest occurrence of the key that was followed by
	 * this continuation */
	uint32_t end;
	uint32_t times;
};

/* Returns the index of the draft's first token, or 0 if there is nothing to
 * draft. */
static uint32_t choose(struct ngram_map *m, const int32_t *text, size_t n)
{
	const int32_t *key = text + n - m->o.key;
	struct value v[VALUES] = { 0 };
	uint32_t hits = 0, best = 0;

	for (uint32_t at = m->newest[bucket(key, m->o.key)]; at;
		at = m->older[at]) {
		uint32_t i = 0;

		/* count two steps (each is a load whose address the previous
		 * load gave), for the occurrence and for its `older`, and the
		 * comparison of the key's tokens */
		m->work.steps += 2;
		m->work.values += m->o.key;
		if (memcmp(text + at - m->o.key, key,
			    m->o.key * sizeof(*key)) != 0)
			continue;
		hits++;
		/* Count the continuation at index `at`. Two continuations are
		 * equal if they agree up to the draft's length or the end of
		 * the sequence. */
		for (; i < m->o.values && v[i].times; i++) {
			size_t len = n - (v[i].end > at ? v[i].end : at);

			if (len > m->o.length)
				len = m->o.length;
			m->work.values += len;
			if (!memcmp(text + v[i].end, text + at,
				    len * sizeof(*text)))
				break;
		}
		if (i < m->o.values && !v[i].times++)
			v[i].end = at;
		if (m->o.values == 1 && hits >= m->o.hits)
			break;
	}
	for (uint32_t i = 1; i < m->o.values; i++)
		best = v[i].times > v[best].times ? i : best;
	for (uint32_t i = 0, others = 0; i < m->o.values; i++) {
		others += i != best ? v[i].times : 0;
		if (v[best].times < 2 * others)
			return 0;
	}
	return hits >= m->o.hits ? v[best].end : 0;
}

static int find(void *arg, const int32_t *text, size_t n, size_t same,
	struct lookup_chain *c, struct err *e)
{
	struct ngram_map *m = arg;
	int ret = update(m, text, n, same, e);
	uint32_t from;

	c->n = 0;
	if (ret || n <= (size_t)m->o.key + m->o.length + 1)
		return ret;
	from = choose(m, text, n);
	if (!from)
		return 0;
	c->n = n - from < m->o.length ? (uint32_t)(n - from) : m->o.length;
	c->match = m->o.key;
	memcpy(c->token, text + from, c->n * sizeof(*text));
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static void close_map(void *arg)
{
	struct ngram_map *m = arg;

	free(m->newest);
	free(m->older);
	free(m);
}

static uint32_t length(const struct opt_values *values)
{
	const struct ngram_map_options *o = opt_values_of(values, &table);

	return o->length;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct ngram_map *m = calloc(1, sizeof(*m));
	const struct lookup lookup = { m, m ? &m->work : NULL, find,
		close_map };

	if (m)
		m->newest = calloc(BUCKETS, sizeof(*m->newest));
	if (!m || !m->newest) {
		free(m);
		return err_set(e, ENOMEM, "no memory for --draft ngram-map");
	}
	m->o = *(const struct ngram_map_options *)opt_values_of(
		site->values, &table);
	return lookup_drafter_open(out, &lookup, m->o.length, e);
}

const struct draft_kind draft_kind_ngram_map = {
	.name = "ngram-map",
	.summary = "tokens after the previous occurrence of the last 12 tokens",
	.title = "a map of n-grams",
	.options = &table,
	.length = length,
	.open = open_kind,
};
