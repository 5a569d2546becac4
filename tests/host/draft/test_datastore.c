/*
 * The datastore (an index of token sequences, with which drafters look up what
 * followed a token) compared with a search that examines every position, over
 * random sequences that are added piece by piece.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/draft/datastore.h"
#include "tests/harness.h"
#include "tests/host/draft/drawn_text.h"

#include <string.h>

/* Draw a sequence of tokens that occurs in the text or differs from such a
 * sequence in one token. Returns the number of tokens. */
static uint32_t draw_tokens(
	const struct text *x, int32_t *token, uint32_t kinds, struct draw *d)
{
	uint32_t n = 1 + below(d, DATASTORE_REACH), at = below(d, x->n), i;

	for (i = 0; i < n && at + i < x->n && x->token[at + i] >= 0; i++)
		token[i] = x->token[at + i];
	if (!i || !below(d, 4))
		token[i ? below(d, i) : i++] = (int32_t)below(d, kinds + 1);
	return i;
}

static void check_find(const struct datastore *s, const struct text *x,
	const int32_t *token, uint32_t n)
{
	size_t first, end;
	uint32_t want = count(x, token, n);

	datastore_find(s, token, n, &first, &end);
	if (end - first != want)
		fail_msg("%u tokens were found %zu times, not %u, among %u", n,
			end - first, want, x->n);
	for (; first < end; first++)
		assert_memory_equal(
			s->token + s->suffix[first], token, n * sizeof(*token));
}

/* Check that the suffixes are sorted by their first DATASTORE_REACH tokens. The
 * store compares no further tokens. */
static void check_order(const struct datastore *s, const struct text *x)
{
	for (size_t i = 1; i < s->n_suffixes; i++) {
		const int32_t *a = s->token + s->suffix[i - 1];
		const int32_t *b = s->token + s->suffix[i];
		uint32_t k = 0;

		while (k + 1 < DATASTORE_REACH && a[k] == b[k] && a[k] >= 0)
			k++;
		assert_true(a[k] <= b[k]);
	}
	assert_int_equal(s->n, x->n);
	assert_memory_equal(s->token, x->token, x->n * sizeof(*x->token));
}

static void add(
	struct datastore *s, struct text *x, uint32_t kinds, struct draw *d)
{
	uint32_t n = below(d, 60), from = x->n ? below(d, x->n) : 0;
	uint32_t begin = x->n;
	struct err e = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		int32_t copied = from + i < begin ? x->token[from + i] : -1;

		x->token[x->n++] = copied >= 0 && below(d, 20)
			? copied
			: (int32_t)below(d, kinds);
	}
	assert_ok(datastore_add(s, x->token + begin, n, &e), &e);
	x->token[x->n++] = DATASTORE_END;
}

/* Make 100,000 lookups in stores with one to 300 different tokens. */
static void test_random(void **state)
{
	static const uint32_t kinds[] = { 1, 2, 3, 5, 20, 300 };
	struct draw d = { .seed = harness_seed() };
	struct err e = { 0 };
	int32_t token[DATASTORE_REACH + 1];

	for (uint32_t looks = 0; looks < 100000; d.round++) {
		uint32_t k = kinds[d.round % ARRAY_LEN(kinds)];
		struct datastore s = { 0 };
		struct text x = { .n = 0 };

		d.at = 0;
		for (uint32_t batch = 0; batch < 5; batch++) {
			for (uint32_t i = below(&d, 4); i; i--)
				add(&s, &x, k, &d);
			assert_ok(datastore_sort(&s, &e), &e);
			check_order(&s, &x);
			for (uint32_t i = 0; x.n && i < 60; i++, looks++)
				check_find(&s, &x, token,
					draw_tokens(&x, token, k, &d));
		}
		datastore_release(&s);
	}
}

/* A lookup finds nothing before the store is sorted, and nothing in an empty
 * store. */
static void test_empty(void **state)
{
	const int32_t token[] = { 1, 2, 3 };
	struct datastore s = { 0 };
	struct err e = { 0 };
	size_t first, end;

	assert_ok(datastore_sort(&s, &e), &e);
	datastore_find(&s, token, 3, &first, &end);
	assert_int_equal(first, end);
	assert_ok(datastore_add(&s, token, 0, &e), &e);
	assert_ok(datastore_add(&s, token, 3, &e), &e);
	datastore_find(&s, token, 3, &first, &end);
	assert_int_equal(first, end);
	assert_ok(datastore_sort(&s, &e), &e);
	datastore_find(&s, token, 3, &first, &end);
	assert_int_equal(end - first, 1);
	datastore_release(&s);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_empty),
};

TEST_FILE(tests)
