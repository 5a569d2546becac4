/*
 * Common part of the tests of drafter kinds that search texts. This header
 * opens a drafter with some options and compares its chains (drafts without
 * branches) with the expected chains.
 */
#ifndef TESTS_HOST_DRAFT_SOURCE_CHECK_H
#define TESTS_HOST_DRAFT_SOURCE_CHECK_H

#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"

#include <stddef.h>
#include <stdint.h>

static inline struct drafter open_drafter(
	const struct draft_kind *kind, const struct draft_site *site)
{
	struct drafter d = { 0 };
	struct err e = { 0 };

	assert_ok(kind->open(&d, site, &e), &e);
	return d;
}

/* The chain that the drafter drafts after the n tokens of `text` must be the
 * n_want tokens of `want`. */
static inline void check_chain(const struct drafter *d, const int32_t *text,
	size_t n, const int32_t *want, uint32_t n_want)
{
	const struct build_limits limits = { 64, 63 };
	struct tree *t;
	struct build b = { 0 };
	struct err e = { 0 };

	assert_ok(tree_open(&t, 64, 1, &e), &e);
	assert_ok(d->begin(d->arg, t, text, n, &e), &e);
	build_chain_begin(&b, t, &limits);
	assert_ok(build_run(&b, d, &e), &e);
	if (t->n != 1 + n_want)
		fail_msg("%u tokens drafted after %zu, not %u", t->n - 1, n,
			n_want);
	for (uint32_t i = 0; i < n_want; i++)
		if (t->token[i + 1] != want[i])
			fail_msg("drafted token %u is %d, not %d", i,
				t->token[i + 1], want[i]);
	tree_close(t);
}

#endif
