/*
 * The drafter pld compared with the rule of prompt lookup, which the test
 * computes by a search over every position.
 */
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tensor/soc/price_host.h"
#include "tests/host/draft/opened_kind.h"

/* Start of the draft in the text, or 0 if there is no draft. */
static size_t pld_rule(
	const int32_t *text, size_t n, size_t ngram, size_t length)
{
	for (size_t g = ngram; g; g--)
		for (size_t at = 0; g <= n && at + g + length <= n; at++)
			if (at + g < n - g && kind_same(text, at, n - g, g))
				return at + g;
	return 0;
}

static void pld_texts(size_t ngram, size_t length, const struct asked *a)
{
	static const uint32_t alphabets[] = { 2, 7, 50, 3000 };
	struct drafter d = kind_open(&draft_kind_pld, a);
	int32_t text[KIND_TEXT];
	uint32_t drafted = 0;

	for (uint64_t i = 0; i < 60; i++) {
		copied_text(text, KIND_TEXT, alphabets[i % 4], 100 * i);
		for (size_t n = 1; n <= KIND_TEXT; n++) {
			size_t from = pld_rule(text, n, ngram, length);

			kind_drafts(&d, text, n, text + from,
				from ? (uint32_t)length : 0, "pld");
			drafted += from > 0;
		}
	}
	assert_true(drafted > 1000);
	drafter_close(&d);
}

static void test_pld(void **state)
{
	static const struct asked other[] = { { "pld-ngram", "5" },
		{ "pld-length", "4" }, { 0 } };

	pld_texts(3, 10, NULL);
	pld_texts(5, 4, other);
}

/* pld drafts only if at least as many tokens as a draft has follow the
 * match. */
static void test_pld_whole(void **state)
{
	struct drafter d = kind_open(&draft_kind_pld, NULL);
	int32_t text[32];

	for (int32_t i = 0; i < 12; i++)
		text[i] = text[i + 12] = text[i + 24 < 32 ? i + 24 : 31] = i;
	/* The text of the first call has no repetition. In the text of the
	 * second call, 12 tokens follow the earlier 0 1 2, which is enough for
	 * a draft of 10 tokens. */
	kind_drafts(&d, text + 12, 12, NULL, 0, "9 tokens after");
	text[12] = 0;
	text[13] = 1;
	text[14] = 2;
	kind_drafts(&d, text, 15, text + 3, 10, "12 tokens after");
	kind_drafts(&d, text + 3, 12, NULL, 0, "no place");
	drafter_close(&d);
}

static void test_length(void **state)
{
	kind_has_length(&draft_kind_pld, 10);
}

/* Returns the number of comparisons (work.values) of the search in a text of
 * `before` other tokens, then 7 8 9, 1, and 7 8 9 again. */
static uint64_t values_after(uint32_t before)
{
	const struct asked one[] = { { "pld-length", "1" }, { 0 } };
	struct drafter d = kind_open(&draft_kind_pld, one);
	struct search_work work = { 0 };
	int32_t text[KIND_TEXT];
	struct err e = { 0 };
	struct tree *t;
	size_t n = 0;

	for (uint32_t i = 0; i < before; i++)
		text[n++] = 100 + (int32_t)i;
	for (int32_t i = 0; i < 7; i++)
		text[n++] = i == 3 ? 1 : 7 + i % 4;
	assert_ok(tree_open(&t, 8, 1, &e), &e);
	assert_ok(d.begin(d.arg, t, text, n, &e), &e);
	d.searched(d.arg, &work);
	assert_int_equal(work.steps, 0);
	assert_int_equal(t->n_candidates[0], 1);
	assert_int_equal(t->candidate[0].token, 1);
	tree_close(t);
	n = work.values;
	d.searched(d.arg, &work);
	assert_int_equal(work.values, n);
	drafter_close(&d);
	return n;
}

/* The search compares three tokens at the position that matches and one token
 * at each earlier position. Then n guesses cost n * n comparisons, so the
 * single guess costs one more comparison. */
static void test_searched(void **state)
{
	assert_int_equal(values_after(0), 3 + 1);
	assert_int_equal(values_after(1), 1 + 3 + 1);
	assert_int_equal(values_after(200), 200 + 3 + 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_pld),
	cmocka_unit_test(test_pld_whole),
	cmocka_unit_test(test_length),
	cmocka_unit_test(test_searched),
};

TEST_FILE(tests)
