/*
 * The drafter ngram-mod: which tokens of several texts it stores, and when it
 * discards them.
 */
#include "tests/host/draft/opened_kind.h"

#include <errno.h>

/* Fill t with n consecutive token ids from `of` on, so that no token occurs
 * twice. */
static void run(int32_t *t, size_t n, int32_t of)
{
	for (size_t i = 0; i < n; i++)
		t[i] = of + (int32_t)i;
}

/* The last 24 tokens predict the continuation. Drafts have 48 to 64 tokens, or
 * none. */
static void test_mod(void **state)
{
	struct drafter d = kind_open(&draft_kind_ngram_mod, NULL);
	int32_t text[300];

	run(text, 100, 0);
	run(text + 100, 100, 0);
	kind_drafts(&d, text, 100, NULL, 0, "nothing stood before");
	kind_drafts(&d, text, 123, NULL, 0, "23 tokens again");
	kind_drafts(&d, text, 124, text + 24, 64, "24 tokens again");
	/* The draft has 64 tokens: 48 up to the end of the first 100 tokens,
	 * and 16 from the second 100. */
	kind_drafts(&d, text, 152, text + 52, 64, "52 tokens again");
	drafter_close(&d);
	d = kind_open(&draft_kind_ngram_mod, NULL);
	kind_drafts(&d, text, 100, NULL, 0, "nothing stood before");
	kind_drafts(&d, text + 11, 24, text + 35, 64, "64 tokens after");
	kind_drafts(&d, text + 28, 24, text + 52, 48, "48 tokens after");
	kind_drafts(&d, text + 29, 24, NULL, 0, "47 tokens after");
	drafter_close(&d);
}

static const struct asked short_copies[] = { { "ngram-mod-match", "4" },
	{ "ngram-mod-min", "2" }, { "ngram-mod-max", "6" }, { 0 } };

/* When a text has 32 tokens, it is stored, and later texts use it. */
static void test_mod_learns(void **state)
{
	struct drafter d = kind_open(&draft_kind_ngram_mod, short_copies);
	int32_t text[100], other[10];

	run(text, 40, 0);
	kind_drafts(&d, text, 40, NULL, 0, "a first text");
	run(text + 40, 20, 0);
	kind_drafts(&d, text, 44, text + 4, 6, "4 tokens again");
	run(other, 4, 20);
	kind_drafts(&d, other, 4, text + 24, 6, "another text");
	run(text, 31, 100);
	kind_drafts(&d, text, 31, NULL, 0, "31 tokens of a third");
	run(other, 4, 110);
	kind_drafts(&d, other, 4, NULL, 0, "which were not learnt");
	run(text, 32, 100);
	kind_drafts(&d, text, 32, NULL, 0, "32 tokens of it");
	kind_drafts(&d, other, 4, text + 14, 6, "which were learnt");
	drafter_close(&d);
}

/* Make drafts of which no token is accepted, one after the other. */
static void draft_in_vain(const struct drafter *d, uint32_t times)
{
	int32_t text[100];
	size_t n = 40;

	run(text, 40, 0);
	kind_drafts(d, text, n, NULL, 0, "a text");
	for (uint32_t i = 0; i < times; i++) {
		run(text + n, 4, 5 * (int32_t)i);
		n += 4;
		kind_drafts(d, text, n, text + 5 * i + 4, 6, "a draft");
		text[n++] = 900 + (int32_t)i;
		kind_drafts(d, text, n, NULL, 0, "what no one drafted");
	}
}

/* After five drafts in a row of which no token was accepted, the drafter
 * discards all that it has stored, also from other texts. */
static void test_mod_forgets(void **state)
{
	for (uint32_t times = 4; times < 6; times++) {
		struct drafter d =
			kind_open(&draft_kind_ngram_mod, short_copies);
		int32_t first[40];

		run(first, 40, 3000);
		kind_drafts(&d, first, 40, NULL, 0, "a first text");
		draft_in_vain(&d, times);
		kind_drafts(&d, first, 4, first + 4, times < 5 ? 6 : 0,
			times < 5 ? "known" : "forgotten");
		drafter_close(&d);
	}
}

/* A draft that was only partly verified does not count as rejected. */
static void test_mod_cut(void **state)
{
	struct drafter d = kind_open(&draft_kind_ngram_mod, short_copies);
	int32_t text[100], other[4];

	run(text, 60, 0);
	kind_drafts(&d, text, 60, NULL, 0, "a first text");
	run(other, 4, 1000);
	kind_drafts(&d, other, 4, NULL, 0, "another");
	run(text, 30, 0);
	for (size_t n = 4; n < 20; n++)
		kind_drafts(&d, text, n,
			(int32_t[]){ (int32_t)n, (int32_t)n + 1, (int32_t)n + 2,
				(int32_t)n + 3, (int32_t)n + 4,
				(int32_t)n + 5 },
			6, "token by token");
	drafter_close(&d);
}

static void test_mod_refuses(void **state)
{
	static const struct asked a[] = { { "ngram-mod-min", "20" },
		{ "ngram-mod-max", "10" }, { 0 } };
	struct drafter d;
	struct err e = { 0 };

	assert_int_equal(kind_try(&draft_kind_ngram_mod, a, &d, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--ngram-mod-max 10"));
}

static void test_length(void **state)
{
	kind_has_length(&draft_kind_ngram_mod, 64);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_mod),
	cmocka_unit_test(test_mod_learns),
	cmocka_unit_test(test_mod_forgets),
	cmocka_unit_test(test_mod_cut),
	cmocka_unit_test(test_mod_refuses),
	cmocka_unit_test(test_length),
};

TEST_FILE(tests)
