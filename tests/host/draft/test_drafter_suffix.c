/*
 * The drafter suffix: which match it continues, and how long its drafts are.
 */
#include "base/checked.h"
#include "base/opt.h"
#include "host/draft/drafting.h"
#include "tests/host/draft/source_check.h"
#include "tests/host/text/history_file.h"

static void ask(struct opt_values *v, const char *name, const char *text)
{
	struct err e = { 0 };

	assert_ok(opt_set(drafting_tables, v, name, text, &e), &e);
}

/* A draft has as many tokens as the match. */
static void test_length(void **state)
{
	struct opt_values v = { 0 };
	const struct draft_site site = { .values = &v };
	struct drafter d = open_drafter(&draft_kind_suffix, &site);
	const int32_t text[] = { 1, 2, 3, 4, 5, 6, 7, 8, 2, 3, 4 };
	const int32_t again[] = { 9, 8, 9 };
	const size_t n = ARRAY_LEN(text);

	check_chain(&d, text, n - 3, NULL, 0);
	check_chain(&d, text, n, text + 4, 3);
	check_chain(&d, text, n - 1, text + 3, 2);
	/* Nothing is drafted from the previous text. */
	check_chain(&d, again, 2, NULL, 0);
	check_chain(&d, again, 3, again + 1, 1);
	drafter_close(&d);
	ask(&v, "suffix-factor", "0.5");
	ask(&v, "suffix-offset", "2");
	d = open_drafter(&draft_kind_suffix, &site);
	check_chain(&d, text, n, text + 4, 3); /* rounded down from 3.5 */
	check_chain(&d, text, n - 2, text + 2, 2);
	drafter_close(&d);
}

/* Among the tokens that followed a match, the most frequent one is drafted. Its
 * q is its share of these tokens. */
static void test_shares(void **state)
{
	struct opt_values v = { 0 };
	const struct draft_site site = { .values = &v };
	struct drafter d = open_drafter(&draft_kind_suffix, &site);
	const int32_t text[] = { 5, 1, 9, 5, 1, 8, 5, 1, 8, 5, 1, 8, 5, 1 };
	struct tree *t;
	struct err e = { 0 };

	assert_ok(tree_open(&t, 8, 8, &e), &e);
	assert_ok(d.begin(d.arg, t, text, ARRAY_LEN(text), &e), &e);
	/* The longest match, 8 5 1 8 5 1, was followed only by 8. The match of
	 * two tokens was also followed by 9, but its draft has a lower expected
	 * length. */
	assert_int_equal(t->n_candidates[0], 1);
	assert_int_equal(t->candidate[0].token, 8);
	assert_ok(d.begin(d.arg, t, text, 11, &e), &e);
	assert_int_equal(t->n_candidates[0], 1);
	assert_ok(d.begin(d.arg, t, text, 8, &e), &e);
	assert_int_equal(t->n_candidates[0], 2);
	assert_int_equal(t->candidate[0].token, 8);
	assert_true(t->candidate[0].q == t->candidate[1].q);
	tree_close(t);
	drafter_close(&d);
}

/* If a match is as long as the suffix tree is deep, the tree has no
 * continuation for it, so the drafter uses a shorter match. */
static void test_long_match(void **state)
{
	struct opt_values v = { 0 };
	const struct draft_site site = { .values = &v };
	struct drafter d = open_drafter(&draft_kind_suffix, &site);
	int32_t text[400];

	for (int32_t i = 0; i < 400; i++)
		text[i] = i % 200;
	check_chain(&d, text, 300, text + 300, 32);
	drafter_close(&d);
}

static void keep(struct history *h, const int32_t *id, uint32_t n)
{
	const struct history_record r = { .id = id, .n_prompt = 1, .n = n };
	struct err e = { 0 };

	assert_ok(history_append(h, &r, 1, &e), &e);
}

/* Drafts use earlier answers, including answers added after the drafter was
 * opened. There are two possible chains, from the text and from the history,
 * and the one with the longer expected length is used. */
static void test_history(void **state)
{
	const int32_t a[] = { 1, 2, 3, 4, 5, 6 };
	const int32_t b[] = { 3, 4, 7, 8, 9 };
	const int32_t text[] = { 10, 1, 2, 3 }, other[] = { 20, 3, 4, 7 };
	const int32_t both[] = { 3, 11, 12, 2, 3 };
	struct opt_values v = { 0 };
	struct draft_site site = { .values = &v };
	struct drafter d;
	struct history *h;

	history_fresh();
	site.history = h = history_opened(1 << 20);
	d = open_drafter(&draft_kind_suffix, &site);
	check_chain(&d, text, 4, NULL, 0);
	keep(h, a, 6);
	/* A record that is added is not used until the next text begins. */
	check_chain(&d, text, 4, NULL, 0);
	check_chain(&d, other, 2, a + 3, 1);
	check_chain(&d, text, 4, a + 3, 3);
	keep(h, b, 5);
	check_chain(&d, other, 4, b + 3, 2);
	/* The match in the text itself is shorter than that in the history. */
	check_chain(&d, both, 5, a + 3, 2);
	check_chain(&d, both, 2, NULL, 0);
	drafter_close(&d);
	site.history = NULL;
	d = open_drafter(&draft_kind_suffix, &site);
	check_chain(&d, both, 5, both + 1, 1);
	drafter_close(&d);
	history_close(h);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_length),
	cmocka_unit_test(test_shares),
	cmocka_unit_test(test_long_match),
	cmocka_unit_test(test_history),
};

TEST_FILE(tests)
