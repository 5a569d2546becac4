/*
 * Common part of the tests of drafters that look up text. This header makes
 * texts that repeat themselves, because random tokens of a large alphabet have
 * no long matches. It also gets the chain (draft without branches) of a drafter
 * after a text.
 */
#ifndef TESTS_HOST_DRAFT_COPIED_TEXT_H
#define TESTS_HOST_DRAFT_COPIED_TEXT_H

#include "base/err.h"
#include "base/rng.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPIED_CHAIN 255 /* maximum tokens of a chain */

static inline uint64_t copied_seed(void)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

static inline uint32_t copied_below(uint32_t n, uint64_t stream, uint64_t i)
{
	return (uint32_t)(rng_uniform(copied_seed(), stream, i) * n);
}

/* Fill the text in groups of 8 tokens. On average two of three groups copy
 * tokens from up to 40 positions earlier; the other groups are random. */
static inline void copied_text(
	int32_t *t, size_t n, uint32_t alphabet, uint64_t stream)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t back = copied_below(40, stream + 1, i / 8);

		t[i] = (int32_t)copied_below(alphabet, stream, i);
		if (i && copied_below(3, stream + 2, i / 8))
			t[i] = t[i - 1 - back % i];
	}
}

/* Write the tokens that the drafter drafts after the n tokens of `text`, as a
 * chain, to out[COPIED_CHAIN]. Returns the number of tokens. */
static inline uint32_t copied_chain(
	const struct drafter *d, const int32_t *text, size_t n, int32_t *out)
{
	const struct build_limits limits = { COPIED_CHAIN + 1, COPIED_CHAIN };
	struct tree *t;
	struct build b = { 0 };
	struct err e = { 0 };
	uint32_t length;

	assert_ok(tree_open(&t, COPIED_CHAIN + 1, 1, &e), &e);
	assert_ok(d->begin(d->arg, t, text, n, &e), &e);
	build_chain_begin(&b, t, &limits);
	assert_ok(build_run(&b, d, &e), &e);
	length = t->n - 1;
	for (uint32_t i = 0; i < length; i++)
		out[i] = t->token[i + 1];
	tree_close(t);
	return length;
}

static inline void copied_same(const int32_t *got, uint32_t n,
	const int32_t *want, uint32_t m, const char *what, size_t at)
{
	for (uint32_t i = 0; i < n && i < m; i++)
		if (got[i] != want[i])
			fail_msg("%s, after %zu: token %u is %d, not %d", what,
				at, i, got[i], want[i]);
	if (n != m)
		fail_msg("%s, after %zu: %u tokens, not %u", what, at, n, m);
}

#endif
