/*
 * The suffix tree compared with counts over random texts with all kinds of
 * repetition.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/suffix_tree.h"
#include "tensor/soc/price_host.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

/* a counter of search steps, which the tree requires; not read here */
static struct search_work work;

#define MOST 1200 /* maximum tokens of a text */

/* All tokens that were appended, and the ends of the sequences. */
struct text {
	int32_t token[MOST];
	bool last[MOST]; /* token is the last of its sequence */
	/* For each position, the number of tokens up to this position that
	 * equal the last tokens of the text. The count does not extend beyond
	 * the beginning of a sequence. */
	uint32_t same[MOST];
	uint32_t n;
};

struct draw {
	uint64_t seed, text, at;
};

static uint32_t below(struct draw *d, uint32_t n)
{
	uint32_t w[4];

	rng_words(d->seed, d->text, d->at++, w);
	return w[0] % n;
}

static void add(struct text *x, int32_t token)
{
	uint32_t n = x->n++;
	bool begins = !n || x->last[n - 1];

	x->token[n] = token;
	x->last[n] = false;
	/* In descending order, because each count is computed from the old
	 * count of the position before it. */
	for (uint32_t j = n + 1; j--;) {
		uint32_t above =
			!j || x->last[j - 1] || begins ? 0 : x->same[j - 1];

		x->same[j] = x->token[j] == token ? above + 1 : 0;
	}
	x->same[n] = begins ? 1 : x->same[n];
}

/* Length of the longest suffix of the text that also occurs elsewhere, limited
 * to `most` tokens. */
static uint32_t longest(const struct text *x, uint32_t most)
{
	uint32_t best = 0;

	for (uint32_t j = 0; j + 1 < x->n; j++)
		if (x->same[j] > best)
			best = x->same[j];
	return best < most ? best : most;
}

/* Whether the text's last l tokens also end at position j, and the n tokens of
 * `path` follow them there. */
static bool stands(const struct text *x, uint32_t j, uint32_t l,
	const int32_t *path, uint32_t n)
{
	uint32_t i = 0;

	if (x->same[j] < l)
		return false;
	while (i < n && j + i + 1 < x->n && !x->last[j + i] &&
		x->token[j + i + 1] == path[i])
		i++;
	return i == n;
}

static uint32_t count(
	const struct text *x, uint32_t l, const int32_t *path, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t j = 0; j < x->n; j++)
		found += stands(x, j, l, path, n);
	return found;
}

/* Number of positions where the text's last l tokens and then the n tokens of
 * `path` occur, and where a further token or the end of the sequence follows.
 * An occurrence at the end of the text may still grow, so it does not count. */
static uint32_t count_followed(
	const struct text *x, uint32_t l, const int32_t *path, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t j = 0; j < x->n; j++)
		found += (j + n + 1 < x->n || x->last[j + n]) &&
			stands(x, j, l, path, n);
	return found;
}

static void fail_at(
	const struct text *x, const char *what, uint32_t got, uint32_t want)
{
	fail_msg("after %u tokens, %s: %u, not %u", x->n, what, got, want);
}

/* Check the children that the tree lists at *p, the node of the text's last l
 * tokens followed by the n tokens of `path`. The children must be exactly the
 * tokens that follow in at least 1 / SUFFIX_RARE of all occurrences. All token
 * ids are below `kinds`. */
static uint32_t check_next(const struct suffix_tree *t, const struct text *x,
	uint32_t l, int32_t *path, uint32_t n, const struct suffix_place *p,
	uint32_t kinds, struct suffix_next *next)
{
	uint32_t all = count_followed(x, l, path, n), frequent = 0;
	uint32_t listed = suffix_tree_next(t, p, next);

	if (suffix_tree_count(t, p) != all)
		fail_at(x, "count", suffix_tree_count(t, p), all);
	for (uint32_t i = 0; i < listed; i++) {
		path[n] = next[i].token;
		if (next[i].count != count(x, l, path, n + 1))
			fail_at(x, "count of a next token", next[i].count,
				count(x, l, path, n + 1));
		if (i)
			assert_true(next[i].count <= next[i - 1].count);
	}
	for (uint32_t k = 0; k < kinds && l + n < SUFFIX_DEPTH; k++) {
		path[n] = (int32_t)k;
		frequent += count(x, l, path, n + 1) * SUFFIX_RARE >= all &&
			count(x, l, path, n + 1);
	}
	if (listed != frequent)
		fail_at(x, "children", listed, frequent);
	return listed;
}

/* Follow a random path after the text's last l tokens and check the children at
 * each step. */
static void check_path(const struct suffix_tree *t, const struct text *x,
	uint32_t l, struct suffix_place p, uint32_t kinds, struct draw *d)
{
	struct suffix_next next[SUFFIX_RARE];
	int32_t path[SUFFIX_DEPTH + 1];
	uint32_t n = 0, listed;

	for (; n < 6; n++) {
		listed = check_next(t, x, l, path, n, &p, kinds, next);
		if (!listed)
			break;
		path[n] = next[below(d, listed)].token;
		if (!suffix_tree_step(t, &p, path[n]))
			fail_at(x, "steps", n, n + 1);
	}
}

/* Draw the next token of a text: a random token, or the next token of a copy of
 * earlier text. */
static int32_t draw_token(
	const struct text *x, uint32_t *copy, uint32_t kinds, struct draw *d)
{
	if (x->n > 4 && !below(d, 40))
		*copy = below(d, x->n - 1);
	if (!below(d, 15))
		*copy = UINT32_MAX;
	if (*copy < x->n)
		return x->token[(*copy)++];
	return (int32_t)below(d, kinds);
}

static void end(struct suffix_tree *t, struct text *x)
{
	struct err e = { 0 };

	assert_ok(suffix_tree_end(t, &e), &e);
	if (x->n)
		x->last[x->n - 1] = true;
}

static void check_text(struct suffix_tree *t, struct text *x, uint32_t tokens,
	uint32_t kinds, struct draw *d)
{
	struct suffix_matches m;
	uint32_t copy = UINT32_MAX;
	struct err e = { 0 };

	suffix_tree_clear(t);
	x->n = 0;
	while (x->n < tokens) {
		int32_t token = draw_token(x, &copy, kinds, d);
		uint32_t want;

		add(x, token);
		assert_ok(suffix_tree_append(t, &token, 1, &e), &e);
		suffix_tree_live(t, &m);
		want = longest(x, SUFFIX_DEPTH - 1);
		if (m.n != want)
			fail_at(x, "longest match", m.n, want);
		if (m.n) {
			uint32_t l = 1 + below(d, m.n);

			check_path(t, x, l, m.at[l - 1], kinds, d);
		}
		if (!below(d, 150))
			end(t, x);
	}
	assert_ok(suffix_tree_check(t, &e), &e);
}

/* Check 100,000 prefixes of texts with one to 100 different tokens. */
static void test_random(void **state)
{
	static const uint32_t kinds[] = { 1, 2, 3, 5, 20, 100 };
	struct draw d = { .seed = harness_seed() };
	struct text *x = calloc(1, sizeof(*x));
	struct suffix_tree *t;
	struct err e = { 0 };

	assert_non_null(x);
	assert_ok(suffix_tree_open(&t, &work, &e), &e);
	for (uint32_t prefixes = 0; prefixes < 100000; d.text++) {
		uint32_t tokens = 50 + below(&d, 350);

		d.at = 0;
		check_text(t, x, tokens, kinds[d.text % ARRAY_LEN(kinds)], &d);
		prefixes += tokens;
	}
	suffix_tree_close(t);
	free(x);
}

/* Follow a text in the tree without adding the text to the tree. */
static void test_follow(void **state)
{
	struct draw d = { .seed = harness_seed(), .text = 1u << 20 };
	struct text *x = calloc(1, sizeof(*x));
	struct suffix_tree *t;
	struct err e = { 0 };

	assert_non_null(x);
	assert_ok(suffix_tree_open(&t, &work, &e), &e);
	for (uint32_t i = 0; i < 60; i++, d.text++) {
		uint32_t kinds = 2 + i % 7, copy = UINT32_MAX;
		struct suffix_matches m = { 0 };

		d.at = 0;
		check_text(t, x, 300, kinds, &d);
		end(t, x);
		for (uint32_t k = 0; k < 100; k++) {
			int32_t token = draw_token(x, &copy, kinds, &d);
			uint32_t want;

			add(x, token);
			suffix_tree_follow(t, &m, token);
			/* x also has the tokens that were followed, which are
			 * not in the tree, so only the first 300 positions
			 * count. */
			want = 0;
			for (uint32_t j = 0; j < 300; j++)
				if (x->same[j] > want)
					want = x->same[j];
			want = want < SUFFIX_DEPTH ? want : SUFFIX_DEPTH;
			if (m.n != want)
				fail_at(x, "followed", m.n, want);
		}
	}
	suffix_tree_close(t);
	free(x);
}

/* The worst cases of suffix trees: a short text that is repeated many times,
 * and a text of one repeated token. */
static void test_repetition(void **state)
{
	struct suffix_matches m;
	struct suffix_next next[SUFFIX_RARE];
	struct suffix_tree *t;
	struct err e = { 0 };
	int32_t token[4000];

	assert_ok(suffix_tree_open(&t, &work, &e), &e);
	for (int32_t period = 1; period < 100; period += 7) {
		suffix_tree_clear(t);
		for (int32_t i = 0; i < 4000; i++)
			token[i] = i % period;
		for (uint32_t i = 0; i < 4; i++) {
			assert_ok(suffix_tree_append(
					  t, token, ARRAY_LEN(token), &e),
				&e);
			assert_ok(suffix_tree_check(t, &e), &e);
			suffix_tree_live(t, &m);
			assert_int_equal(m.n, SUFFIX_DEPTH - 1);
			assert_int_equal(
				suffix_tree_next(t, &m.at[40], next), 1);
			assert_int_equal(
				next[0].token, (token[3999] + 1) % period);
			assert_ok(suffix_tree_end(t, &e), &e);
			assert_ok(suffix_tree_check(t, &e), &e);
		}
	}
	suffix_tree_close(t);
}

static void check_root(const struct suffix_tree *t, const uint32_t *seen,
	uint32_t kinds, uint32_t all)
{
	const struct suffix_place root = { 0 };
	struct suffix_next next[SUFFIX_RARE];
	uint32_t listed = suffix_tree_next(t, &root, next), want = 0;

	for (uint32_t k = 0; k < kinds; k++)
		want += seen[k] && seen[k] * SUFFIX_RARE >= all;
	if (listed != want)
		fail_msg("of %u: %u children, not %u", all, listed, want);
	for (uint32_t i = 0; i < listed; i++)
		assert_int_equal(next[i].count, seen[next[i].token]);
}

/* Frequent children are found among thousands, even if they become frequent
 * late. Rare children are not listed. */
static void test_many_children(void **state)
{
	enum { KINDS = 4000 };
	struct draw d = { .seed = harness_seed(), .text = 1u << 21 };
	uint32_t *seen = calloc(KINDS, sizeof(*seen));
	struct suffix_tree *t;
	struct err e = { 0 };

	assert_non_null(seen);
	assert_ok(suffix_tree_open(&t, &work, &e), &e);
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t often = 2000 + i / 2000 * 3 + below(&d, 3);
		int32_t token =
			(int32_t)(below(&d, 100) < 45 ? often
						      : below(&d, KINDS));

		seen[token]++;
		assert_ok(suffix_tree_append(t, &token, 1, &e), &e);
		check_root(t, seen, KINDS, i + 1);
	}
	suffix_tree_close(t);
	free(seen);
}

static void test_empty(void **state)
{
	const struct suffix_place root = { 0 };
	struct suffix_place p = root;
	struct suffix_next next[SUFFIX_RARE];
	struct suffix_matches m = { 0 };
	struct suffix_tree *t;
	struct err e = { 0 };

	assert_ok(suffix_tree_open(&t, &work, &e), &e);
	assert_ok(suffix_tree_end(t, &e), &e);
	assert_ok(suffix_tree_check(t, &e), &e);
	assert_int_equal(suffix_tree_count(t, &root), 0);
	assert_int_equal(suffix_tree_next(t, &root, next), 0);
	assert_false(suffix_tree_step(t, &p, 3));
	suffix_tree_follow(t, &m, 3);
	assert_int_equal(m.n, 0);
	suffix_tree_live(t, &m);
	assert_int_equal(m.n, 0);
	suffix_tree_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_follow),
	cmocka_unit_test(test_repetition),
	cmocka_unit_test(test_many_children),
	cmocka_unit_test(test_empty),
};

TEST_FILE(tests)
