/*
 * Random sequences, stored one after the other in one array, and a search that
 * examines every position. Used by the tests of datastores and of drafters that
 * use datastores.
 */
#ifndef TESTS_HOST_DRAFT_DRAWN_TEXT_H
#define TESTS_HOST_DRAFT_DRAWN_TEXT_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct draw {
	uint64_t seed, round, at;
};

static inline uint32_t below(struct draw *d, uint32_t n)
{
	uint32_t w[4];

	rng_words(d->seed, d->round, d->at++, w);
	return w[0] % n;
}

#define MOST 3000

/* The sequences, with -1 after each. */
struct text {
	int32_t token[MOST];
	uint32_t n;
};

/* Whether the text has the n tokens of `token` at position `at`. The last token
 * is compared first, because most positions differ in that token. */
static inline bool stands(
	const struct text *x, uint32_t at, const int32_t *token, uint32_t n)
{
	return at + n <= x->n && x->token[at + n - 1] == token[n - 1] &&
		!memcmp(x->token + at, token, n * sizeof(*token));
}

static inline uint32_t count(
	const struct text *x, const int32_t *token, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < x->n; i++)
		found += stands(x, i, token, n);
	return found;
}

#endif
