/*
 * Which part of a rejected draft is drafted again. The two repairs of table 2
 * of the sd.npu paper (drafter_reuse.h) are tested on drafts made for them. The
 * longest run (successive drafted tokens that the target also predicted) is
 * compared with a search that tries all runs. Another test checks for how many
 * steps a run is kept.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/drafter_reuse.h"
#include "host/draft/source.h"
#include "host/tree/tree.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

#define VOCAB 32
#define ROWS  24

enum { MISSING, SYNONYM, REJOINED };

struct fixture {
	struct source s;
	struct tree *t;
	int32_t predicted[ROWS];
};

static void open_fixture(struct fixture *f, struct reuse_options o)
{
	struct err e = { 0 };

	memset(f->predicted, 0, sizeof(f->predicted));
	assert_ok(reuse_open(&f->s, &o, ROWS, &e), &e);
	assert_ok(tree_open(&f->t, ROWS, 4, &e), &e);
}

static void close_fixture(struct fixture *f)
{
	f->s.close(f->s.arg);
	tree_close(f->t);
}

static void take(struct fixture *f, const int32_t *text, size_t n, size_t same)
{
	struct err e = { 0 };

	assert_ok(f->s.take(f->s.arg, text, n, same, &e), &e);
}

/* Pass the target's predictions for all nodes of the tree to the source, or the
 * logits of the root if the source asks for no predictions. */
static void verify(struct fixture *f)
{
	static const float logits[VOCAB];

	if (!f->s.verified)
		f->s.computed(f->s.arg, f->t, 0, logits, VOCAB);
	for (uint32_t i = 0; f->s.verified && i < f->t->n; i++) {
		const struct candidate best = { .token = f->predicted[i],
			.q = 0.5f };

		f->s.verified(f->s.arg, f->t, i, &best, 1);
	}
}

/* Make the tree a chain with the n tokens of x after `root`. The n + 1 tokens
 * of y are the target's predictions after the root and after each of the
 * tokens. */
static void chain(struct fixture *f, int32_t root, const int32_t *x,
	const int32_t *y, uint32_t n)
{
	tree_reset(f->t, root);
	for (uint32_t i = 0; i < n; i++)
		tree_add(f->t, i, (struct candidate){ x[i], 0.5f });
	for (uint32_t i = 0; i <= n; i++)
		f->predicted[i] = y[i];
}

/* Write the tokens that a repair drafts at the root. Returns their number. */
static uint32_t drafted(struct fixture *f, uint32_t repair, int32_t *token)
{
	struct source_guess g[32];
	struct source_place p;
	uint32_t n = 0, at, found;

	f->s.root(f->s.arg, &p);
	for (;;) {
		found = f->s.guesses(f->s.arg, &p, n, g, ARRAY_LEN(g));
		for (at = 0; at < found && g[at].origin != repair;)
			at++;
		if (at == found)
			return n;
		token[n++] = g[at].token;
		f->s.step(f->s.arg, &p, g[at].token);
	}
}

static const struct reuse_options checked = {
	.age = 3, .room = 32, .checked = true
};

static void expect(
	struct fixture *f, uint32_t repair, const int32_t *want, uint32_t n)
{
	int32_t got[ROWS + 1];
	uint32_t k = drafted(f, repair, got);

	if (k != n)
		fail_msg("%u tokens of repair %u, not %u", k, repair, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(got[i], want[i]);
}

/* The draft after token 1 is 2 3 4 5 6 7. Token 2 was accepted and 3 rejected.
 * The target also predicted 5 and 6 at their positions in the draft. */
static void test_repairs(void **state)
{
	static const int32_t x[] = { 2, 3, 4, 5, 6, 7 };
	static const int32_t y[] = { 2, 9, 10, 5, 6, 11, 12 };
	static const int32_t text[] = { 8, 1, 2, 9 };
	struct fixture f;

	open_fixture(&f, checked);
	take(&f, text, 2, 0);
	chain(&f, 1, x, y, ARRAY_LEN(x));
	verify(&f);
	take(&f, text, 4, 2);
	expect(&f, MISSING, x + 1, 4);
	expect(&f, SYNONYM, x + 3, 2);
	/* The run is kept for three steps and then discarded. */
	take(&f, text, 4, 4);
	take(&f, text, 4, 4);
	expect(&f, SYNONYM, x + 3, 2);
	take(&f, text, 4, 4);
	expect(&f, SYNONYM, NULL, 0);
	close_fixture(&f);
}

/* A run that the target did not predict, or that has only one token, is not
 * kept. If the drafter does not use the target's predictions, the whole rest of
 * the draft is kept. */
static void test_redundant(void **state)
{
	static const int32_t x[] = { 2, 3, 4, 5 };
	static const int32_t y[] = { 9, 10, 4, 10, 10 };
	static const int32_t text[] = { 1, 9 };
	struct fixture f;

	open_fixture(&f, checked);
	take(&f, text, 1, 0);
	chain(&f, 1, x, y, ARRAY_LEN(x));
	verify(&f);
	take(&f, text, 2, 1);
	expect(&f, MISSING, NULL, 0);
	expect(&f, SYNONYM, NULL, 0);
	close_fixture(&f);
	open_fixture(&f, (struct reuse_options){ .age = 1, .room = 32 });
	assert_null(f.s.verified);
	take(&f, text, 1, 0);
	chain(&f, 1, x, y, ARRAY_LEN(x));
	verify(&f);
	take(&f, text, 2, 1);
	expect(&f, MISSING, x, 4);
	expect(&f, SYNONYM, x + 1, 3);
	close_fixture(&f);
}

/* Give the source the first n tokens of the text, verify the tree, and give the
 * source the first m tokens. */
static void reject(struct fixture *f, const int32_t *text, size_t n, size_t m)
{
	take(f, text, n, n - 1);
	verify(f);
	take(f, text, m, n);
}

/* The guesses after a path of drafted tokens must be those of `want`, in any
 * order. A guess is written as the number 10000 * repair + 100 * match + token.
 */
static void expect_guesses(struct fixture *f, const int32_t *path, uint32_t n,
	const uint32_t *want, uint32_t n_want)
{
	struct source_guess g[32];
	struct source_place p;
	uint32_t found;

	f->s.root(f->s.arg, &p);
	for (uint32_t i = 0; i < n; i++)
		f->s.step(f->s.arg, &p, path[i]);
	found = f->s.guesses(f->s.arg, &p, n, g, ARRAY_LEN(g));
	for (uint32_t i = 0; i < found; i++) {
		uint32_t k = 0,
			 is = 10000 * g[i].origin + 100 * g[i].match +
			(uint32_t)g[i].token;

		while (k < n_want && want[k] != is)
			k++;
		if (k == n_want)
			fail_msg("guess %u is %u", i, is);
	}
	assert_int_equal(found, n_want);
}

/* Two drafts begin with the same token. A path from this token follows both,
 * until one of them departs from the path. */
static void test_same_beginning(void **state)
{
	static const int32_t x[] = { 2, 3, 4, 5 }, later[] = { 2, 3, 6, 7 };
	static const int32_t y[] = { 9, 3, 4, 5, 6 }, z[] = { 8, 3, 6, 7, 9 };
	static const int32_t text[] = { 1, 9, 8 };
	struct fixture f;

	open_fixture(&f, checked);
	chain(&f, 1, x, y, ARRAY_LEN(x));
	reject(&f, text, 1, 2);
	chain(&f, 9, later, z, ARRAY_LEN(later));
	verify(&f);
	take(&f, text, 3, 2);
	expect_guesses(&f, x, 1, (const uint32_t[]){ 3 }, 1);
	expect_guesses(&f, x, 2, (const uint32_t[]){ 4, 6 }, 2);
	expect_guesses(&f, x, 3, (const uint32_t[]){ 5 }, 1);
	expect_guesses(&f, later, 3, (const uint32_t[]){ 7 }, 1);
	close_fixture(&f);
}

/* The target's predictions are not used. The rejected draft is 10 to 19. After
 * token 9, the new draft may continue at 10, or at a token of the rejected
 * draft one to four positions further. After the path 9 12, it may also
 * continue after the 12 of the rejected draft. After the path 9 12 13 14, the
 * match with 12 13 14 of the rejected draft has three tokens. */
static void test_rejoined(void **state)
{
	static const int32_t x[] = { 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 };
	static const int32_t text[] = { 1, 9, 12, 13, 14 };
	struct fixture f;

	open_fixture(&f, (struct reuse_options){ .age = 3, .room = 32 });
	chain(&f, 1, x, (const int32_t[ROWS]){ 0 }, ARRAY_LEN(x));
	reject(&f, text, 1, 2);
	expect_guesses(&f, NULL, 0,
		(const uint32_t[]){ 10, 10311, 10212, 10113, 10014 }, 5);
	take(&f, text, 3, 2);
	expect_guesses(&f, NULL, 0,
		(const uint32_t[]){ 10, 10211, 10312, 20113, 10114, 10015 }, 6);
	expect_guesses(&f, x + 3, 1, (const uint32_t[]){ 20114 }, 1);
	take(&f, text, 5, 3);
	expect_guesses(&f, NULL, 0,
		(const uint32_t[]){
			10, 10011, 10112, 10213, 10314, 20315, 10116, 10017 },
		8);
	close_fixture(&f);
}

/* If the target's predictions are not used, the three longest rejected paths of
 * a tree are kept. */
static void test_paths(void **state)
{
	struct fixture f;

	open_fixture(&f, (struct reuse_options){ .age = 1, .room = 4 });
	tree_reset(f.t, 1);
	for (int32_t i = 0; i < 4; i++)
		for (int32_t k = 0, u = 0; k < 3 + i; k++)
			u = (int32_t)tree_add(f.t, (uint32_t)u,
				(struct candidate){ 5 * i + k + 2, 0.2f });
	reject(&f, (const int32_t[]){ 1, 31 }, 1, 2);
	expect(&f, MISSING, (const int32_t[]){ 17, 18, 19, 20, 21, 22 }, 6);
	expect_guesses(&f, (const int32_t[]){ 12, 13, 14, 15 }, 4,
		(const uint32_t[]){ 16 }, 1);
	expect_guesses(&f, (const int32_t[]){ 7, 8, 9 }, 3,
		(const uint32_t[]){ 10 }, 1);
	expect_guesses(&f, (const int32_t[]){ 2, 3 }, 2, NULL, 0);
	close_fixture(&f);
}

/* A rejected draft of one text is not used in another text. */
static void test_another_text(void **state)
{
	static const int32_t x[] = { 2, 3, 4, 5 };
	static const int32_t y[] = { 9, 3, 4, 5, 6 };
	static const int32_t text[] = { 1, 9 }, other[] = { 9, 9 };
	struct fixture f;

	open_fixture(&f, checked);
	take(&f, text, 1, 0);
	chain(&f, 1, x, y, ARRAY_LEN(x));
	verify(&f);
	take(&f, other, 2, 0);
	expect(&f, SYNONYM, NULL, 0);
	close_fixture(&f);
}

/* ---- random trees -------------------------------------------------------- */

static uint64_t seed(void)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

static uint32_t draw(uint64_t round, uint64_t at, uint32_t below)
{
	return (uint32_t)(rng_uniform(seed(), round, at) * below);
}

static void random_tree(struct fixture *f, uint64_t round)
{
	struct tree *t = f->t;

	tree_reset(t, 0);
	while (t->n < ROWS) {
		uint32_t u = t->n;
		uint32_t parent =
			draw(round, u, 3) ? u - 1 : draw(round, u + 100, u);
		int32_t token = (int32_t)draw(round, u + 200, 4);

		while (tree_child(t, parent, token) >= 0)
			token++;
		tree_add(t, parent, (struct candidate){ token, 0.5f });
	}
	for (uint32_t u = 0; u < t->n; u++)
		f->predicted[u] = (int32_t)draw(round, u + 300, 4);
}

/* Write the text that the target would generate: its predictions from the root
 * on, as long as they are nodes of the tree, and the first prediction that is
 * no node. Returns the length of the text. */
static size_t target_text(const struct fixture *f, int32_t *text)
{
	int32_t node = 0;
	size_t n = 0;

	text[n++] = 0;
	while (node >= 0) {
		text[n] = f->predicted[node];
		node = tree_child(f->t, (uint32_t)node, text[n]);
		n++;
	}
	return n;
}

/* Length of the longest run over all leaves, found by trying every range [from,
 * end) after the first rejected token. */
static uint32_t brute_force(const struct fixture *f, const int32_t *text)
{
	uint32_t best = 0;

	for (uint32_t leaf = 1; leaf < f->t->n; leaf++) {
		uint32_t path[ROWS + 1], n = f->t->depth[leaf], wrong = 1;

		for (uint32_t u = leaf, i = n + 1; i--;
			u = (uint32_t)f->t->parent[u])
			path[i] = u;
		while (wrong <= n && f->t->token[path[wrong]] == text[wrong])
			wrong++;
		for (uint32_t from = wrong + 1; from <= n; from++)
			for (uint32_t end = from; end <= n; end++) {
				uint32_t i = from;

				while (i <= end &&
					f->t->token[path[i]] ==
						f->predicted[path[i - 1]])
					i++;
				if (i > end && end - from + 1 > best)
					best = end - from + 1;
			}
	}
	return best;
}

static void test_longest_run(void **state)
{
	unsigned kept = 0;

	for (uint64_t round = 0; round < 2000; round++) {
		struct fixture f;
		int32_t text[ROWS + 2], got[ROWS + 1];
		uint32_t want;

		open_fixture(&f, checked);
		random_tree(&f, round);
		take(&f, (const int32_t[]){ 0 }, 1, 0);
		verify(&f);
		take(&f, text, target_text(&f, text), 1);
		want = brute_force(&f, text);
		want = want < REUSE_RUN ? 0 : want;
		if (drafted(&f, SYNONYM, got) != want)
			fail_msg("round %u: %u tokens, not %u", (unsigned)round,
				drafted(&f, SYNONYM, got), want);
		kept += want > 0;
		close_fixture(&f);
	}
	assert_true(kept > 100);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_repairs),
	cmocka_unit_test(test_redundant),
	cmocka_unit_test(test_same_beginning),
	cmocka_unit_test(test_rejoined),
	cmocka_unit_test(test_paths),
	cmocka_unit_test(test_another_text),
	cmocka_unit_test(test_longest_run),
};

TEST_FILE(tests)
