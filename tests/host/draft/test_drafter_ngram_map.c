/*
 * The drafter ngram-map compared with its rule, which the test computes by a
 * search over every position.
 */
#include "tests/host/draft/opened_kind.h"

struct map_rule {
	uint32_t key, length, hits, values;
};

static bool like_value(const int32_t *text, size_t n, size_t a, size_t b,
	const struct map_rule *r)
{
	size_t len = r->length;

	while (a + len > n || b + len > n)
		len--;
	return kind_same(text, a, b, len);
}

/* A value is the sequence of r->length tokens that followed an earlier
 * occurrence of the key (the last r->key tokens). Returns the start of the
 * value that occurred at least twice as often as all other values together, or
 * 0 if there is none. Values are searched from the newest to the oldest. */
static size_t dominant(const int32_t *text, size_t n, const struct map_rule *r)
{
	size_t value[4], used = 0, best = 0;
	uint32_t times[4] = { 0 }, others = 0;

	for (size_t at = n - r->key; at >= r->key; at--) {
		size_t i = 0;

		if (!kind_same(text, at - r->key, n - r->key, r->key))
			continue;
		while (i < used && !like_value(text, n, value[i], at, r))
			i++;
		if (i == used && used < r->values)
			value[used++] = at;
		if (i < used)
			times[i]++;
	}
	for (size_t i = 0; i < used; i++)
		best = times[i] > times[best] ? i : best;
	for (size_t i = 0; i < used; i++)
		others += i == best ? 0 : times[i];
	return used && times[best] >= 2 * others ? value[best] : 0;
}

static size_t map_rule(const int32_t *text, size_t n, const struct map_rule *r)
{
	uint32_t hits = 0;
	size_t newest = 0;

	if (n <= r->key + r->length + 1)
		return 0;
	for (size_t at = n - r->key; at >= r->key; at--)
		if (kind_same(text, at - r->key, n - r->key, r->key)) {
			newest = newest ? newest : at;
			hits++;
		}
	if (hits < r->hits)
		return 0;
	return r->values == 1 ? newest : dominant(text, n, r);
}

static void map_texts(const struct map_rule *r, const struct asked *a)
{
	static const uint32_t alphabets[] = { 2, 4, 40, 3000 };
	struct drafter d = kind_open(&draft_kind_ngram_map, a);
	uint32_t drafted = 0;
	int32_t text[KIND_TEXT];

	for (uint64_t i = 0; i < 40; i++) {
		copied_text(text, KIND_TEXT, alphabets[i % 4], 100 * i);
		for (size_t n = 1; n <= KIND_TEXT;
			n += 1 + copied_below(3, 50 + i, n)) {
			size_t from = map_rule(text, n, r);
			size_t most = from ? n - from : 0;

			kind_drafts(&d, text, n, text + from,
				(uint32_t)(most < r->length ? most : r->length),
				"ngram-map");
			drafted += from > 0;
		}
	}
	print_message("%u drafts with a key of %u\n", drafted, r->key);
	assert_true(drafted > 100);
	drafter_close(&d);
}

static void test_map(void **state)
{
	static const struct asked of_3[] = { { "ngram-map-key", "3" },
		{ "ngram-map-length", "16" }, { 0 } };
	static const struct asked of_2[] = { { "ngram-map-key", "2" },
		{ "ngram-map-length", "5" }, { "ngram-map-hits", "3" }, { 0 } };
	static const struct asked k4v[] = { { "ngram-map-key", "2" },
		{ "ngram-map-length", "4" }, { "ngram-map-values", "4" },
		{ 0 } };

	map_texts(&(struct map_rule){ 12, 48, 1, 1 }, NULL);
	map_texts(&(struct map_rule){ 3, 16, 1, 1 }, of_3);
	map_texts(&(struct map_rule){ 2, 5, 3, 1 }, of_2);
	map_texts(&(struct map_rule){ 2, 4, 1, 4 }, k4v);
}

static void test_length(void **state)
{
	kind_has_length(&draft_kind_ngram_map, 48);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_map),
	cmocka_unit_test(test_length),
};

TEST_FILE(tests)
