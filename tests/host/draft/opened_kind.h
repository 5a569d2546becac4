/*
 * Common part of the tests of drafter kinds. This header opens a kind of
 * drafter as the option --draft does and compares its chains (drafts without
 * branches) with the expected chains.
 */
#ifndef TESTS_HOST_DRAFT_OPENED_KIND_H
#define TESTS_HOST_DRAFT_OPENED_KIND_H

#include "base/opt.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafting.h"
#include "tests/host/draft/copied_text.h"

#include <string.h>

#define KIND_TEXT 220 /* tokens of a text */

/* Options as pairs of name and value; the last entry has the name NULL. */
struct asked {
	const char *name, *value;
};

static inline int kind_try(const struct draft_kind *k, const struct asked *a,
	struct drafter *out, struct err *e)
{
	/* static, because the drafter may read the options later */
	static struct opt_values values;
	const struct draft_site site = { .values = &values };

	values = (struct opt_values){ 0 };
	for (; a && a->name; a++)
		assert_ok(
			opt_set(drafting_tables, &values, a->name, a->value, e),
			e);
	return k->open(out, &site, e);
}

static inline struct drafter kind_open(
	const struct draft_kind *k, const struct asked *a)
{
	struct drafter d;
	struct err e = { 0 };

	assert_ok(kind_try(k, a, &d, &e), &e);
	return d;
}

/* The chain after the n tokens of `text` must be the m tokens of `want`. */
static inline void kind_drafts(const struct drafter *d, const int32_t *text,
	size_t n, const int32_t *want, uint32_t m, const char *what)
{
	int32_t got[COPIED_CHAIN];
	uint32_t k = copied_chain(d, text, n, got);

	copied_same(got, k, want, m, what, n);
}

/* Whether the n tokens at a and at b of the text are the same. */
static inline bool kind_same(const int32_t *text, size_t a, size_t b, size_t n)
{
	return !memcmp(text + a, text + b, n * sizeof(*text));
}

/* The default maximum length of a draft must be `length`. */
static inline void kind_has_length(const struct draft_kind *k, uint32_t length)
{
	const struct opt_values none = { 0 };

	assert_int_equal(k->length(&none), length);
}

#endif
