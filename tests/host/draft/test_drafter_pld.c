/*
 * The drafter pld compared with the rule of prompt lookup, which a search over
 * every place computes.
 */
#include "base/checked.h"
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

/* pld drafts only if the text has the whole continuation. */
static void test_pld_whole(void **state)
{
	struct drafter d = kind_open(&draft_kind_pld, NULL);
	int32_t text[32];

	for (int32_t i = 0; i < 12; i++)
		text[i] = text[i + 12] = text[i + 24 < 32 ? i + 24 : 31] = i;
	/* 9 tokens follow 0 1 2, then 10. */
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_pld),
	cmocka_unit_test(test_pld_whole),
	cmocka_unit_test(test_length),
};

TEST_FILE(tests)
