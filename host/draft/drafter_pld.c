/*
 * Prompt lookup decoding (Saxena, 2023); the name in --draft is `pld`. With the
 * default options, the last 3 tokens of the sequence are searched for from its
 * beginning; the 10 tokens after the first match are the draft. If there is no
 * match, the last 2 tokens are searched for, and then the last token. A match
 * that is followed by fewer than 10 tokens is skipped.
 */
#include "base/err.h"
#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/lookup.h"
#include "tensor/soc/price_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MOST 255

struct pld_options {
	uint32_t ngram, length;
};

/* clang-format off */
#define IN(field) OPT_IN(pld_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "pld-ngram", IN(ngram), "N",
		"drafter pld: number of last tokens to find in earlier text, "
		"or fewer if they do not occur there ({}); the tokens after "
		"them are drafted",
		1, 64 },
	{ OPT_UINT, 0, "pld-length", IN(length), "N",
		"drafter pld: number of tokens to draft for each pass ({})", 1,
		LENGTH_MOST },
};
/* clang-format on */

static const struct opt_table table = OPT_TABLE_INIT(
	"drafts", option_rows, pld_options, .ngram = 3, .length = 10);

struct pld {
	struct pld_options o;
	struct search_work work;
};

/* Returns the index of the continuation's first token, or n if there is no
 * match. */
static size_t find_ngram(
	struct pld *p, const int32_t *text, size_t n, size_t ngram)
{
	const int32_t *key = text + n - ngram;

	for (size_t from = ngram; from + p->o.length <= n && from + ngram < n;
		from++) {
		size_t k = 0;

		while (k < ngram && text[from - ngram + k] == key[k])
			k++;
		p->work.values += k < ngram ? k + 1 : k;
		if (k == ngram)
			return from;
	}
	return n;
}

static int find(void *arg, const int32_t *text, size_t n, size_t same,
	struct lookup_chain *c, struct err *e)
{
	struct pld *p = arg;
	size_t ngram = p->o.ngram < n ? p->o.ngram : n, from = n;

	c->n = 0;
	while (ngram && (from = find_ngram(p, text, n, ngram)) == n)
		ngram--;
	if (from == n)
		return 0;
	memcpy(c->token, text + from, p->o.length * sizeof(*text));
	c->n = p->o.length;
	c->match = (uint32_t)ngram;
	return 0;
}

static uint32_t length(const struct opt_values *values)
{
	const struct pld_options *o = opt_values_of(values, &table);

	return o->length;
}

static int open_kind(
	struct drafter *out, const struct draft_site *site, struct err *e)
{
	struct pld *p = calloc(1, sizeof(*p));
	const struct lookup lookup = { p, p ? &p->work : NULL, find, free };

	if (!p)
		return err_set(e, ENOMEM, "no memory for --draft pld");
	p->o = *(const struct pld_options *)opt_values_of(site->values, &table);
	return lookup_drafter_open(out, &lookup, p->o.length, e);
}

const struct draft_kind draft_kind_pld = {
	.name = "pld",
	.summary = "tokens after the first occurrence of the last 3 tokens",
	.title = "prompt lookup",
	.options = &table,
	.length = length,
	.open = open_kind,
};
