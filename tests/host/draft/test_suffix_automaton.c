/*
 * The suffix automaton compared with a search over every position: the longest
 * suffix that occurred before and its position, the number of occurrences of a
 * sequence, and the tokens that follow it, in texts with few and with many
 * different tokens. Another test measures the automaton's memory.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/suffix_automaton.h"
#include "host/draft/suffix_edges.h"
#include "tensor/soc/price_host.h"
#include "tests/harness.h"
#include "tests/host/draft/copied_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct search_work work;

static struct suffix_automaton *open_kind(enum suffix_kind kind)
{
	struct suffix_automaton *a;
	struct err e = { 0 };

	assert_ok(suffix_automaton_open(&a, kind, &work, &e), &e);
	return a;
}

static void add(struct suffix_automaton *a, const int32_t *t, size_t n)
{
	struct err e = { 0 };

	assert_ok(suffix_automaton_add(a, t, n, &e), &e);
}

static void check_states(const struct suffix_automaton *a, uint64_t text)
{
	uint64_t n = suffix_automaton_tokens(a);
	uint64_t most = n > 1 ? 2 * n - 1 : n + 1;

	if (suffix_automaton_states(a) > most)
		fail_msg("text %llu: %u states of %llu tokens",
			(unsigned long long)text, suffix_automaton_states(a),
			(unsigned long long)n);
}

/* ---- one text ------------------------------------------------------------ */

/* Returns the length of the longest suffix of the n tokens of `text` that also
 * ends at an earlier position, and sets *first to the first position where it
 * ends. Sets both numbers to 0 if no suffix does. */
static uint32_t longest(const int32_t *text, size_t n, size_t *first)
{
	uint32_t best = 0;

	*first = 0;
	for (size_t end = 1; end < n; end++) {
		uint32_t len = 0;

		while (len < end && text[end - 1 - len] == text[n - 1 - len])
			len++;
		if (len > best) {
			best = len;
			*first = end;
		}
	}
	return best;
}

static void check_prefix(const struct suffix_automaton *a, const int32_t *text,
	size_t n, struct suffix_match before)
{
	struct suffix_match m = suffix_automaton_end(a);
	size_t first;
	uint32_t len = longest(text, n, &first);

	if (m.len != len || suffix_automaton_first(a, m.state) != first)
		fail_msg("of %zu tokens the last %u end first at %u, not the "
			 "last %u at %zu",
			n, m.len, suffix_automaton_first(a, m.state), len,
			first);
	if (before.state != m.state || before.len != m.len)
		fail_msg("of %zu tokens the cursor is at %u of %u, the link at "
			 "%u of %u",
			n, before.state, before.len, m.state, m.len);
}

/*
 * Look up the last `len` of the n tokens of `text` in the automaton. Returns
 * the match (the cursor, with which the next token is looked up). The cursor is
 * made anew for each token, because a state may be split while the cursor is in
 * it, and the cursor then stays in the old state.
 */
static struct suffix_match cursor_before(const struct suffix_automaton *a,
	const int32_t *text, size_t n, uint32_t len)
{
	struct suffix_match m = { 0 };

	for (size_t i = n - len; i < n; i++)
		suffix_automaton_follow(a, &m, text[i]);
	return m;
}

#define PREFIXES 100000

static void test_text(void **state)
{
	static const uint32_t alphabets[] = { 1, 2, 3, 4, 8, 40, 1000, 32000 };
	struct suffix_automaton *a = open_kind(SUFFIX_TEXT);
	int32_t text[96];
	uint64_t checked = 0;

	for (uint64_t i = 0; checked < PREFIXES; i++) {
		size_t n = 1 + copied_below(ARRAY_LEN(text), 1, i);
		struct suffix_match m = { 0 };

		suffix_automaton_clear(a);
		copied_text(
			text, n, alphabets[i % ARRAY_LEN(alphabets)], 1000 * i);
		for (size_t k = 0; k < n; k++) {
			m = cursor_before(a, text, k, m.len);
			suffix_automaton_follow(a, &m, text[k]);
			add(a, text + k, 1);
			m = cursor_before(a, text, k + 1, m.len);
			check_prefix(a, text, k + 1, m);
		}
		check_states(a, i);
		checked += n;
	}
	suffix_automaton_close(a);
}

/* Adding a text at once has the same result as adding it token by token.
 * Clearing a text restores the state before the text was added. */
static void test_again(void **state)
{
	struct suffix_automaton *a = open_kind(SUFFIX_TEXT);
	struct suffix_automaton *b = open_kind(SUFFIX_TEXT);
	int32_t text[400];

	for (uint64_t i = 0; i < 50; i++) {
		struct suffix_match m, k;

		copied_text(text, ARRAY_LEN(text), 2 + (uint32_t)i, 1000 * i);
		suffix_automaton_clear(a);
		add(a, text, 250);
		suffix_automaton_clear(a);
		add(a, text + 1, 100);
		add(a, text + 101, 299);
		suffix_automaton_clear(b);
		for (size_t j = 1; j < ARRAY_LEN(text); j++)
			add(b, text + j, 1);
		m = suffix_automaton_end(a);
		k = suffix_automaton_end(b);
		assert_int_equal(m.len, k.len);
		assert_int_equal(m.state, k.state);
		assert_int_equal(
			suffix_automaton_states(a), suffix_automaton_states(b));
	}
	suffix_automaton_close(a);
	suffix_automaton_close(b);
}

/* ---- a history ----------------------------------------------------------- */

#define TEXTS  12
#define LENGTH 24
/* size of next[]; all token ids are smaller */
#define HERE 512

struct texts {
	int32_t token[TEXTS][LENGTH];
	uint32_t length[TEXTS], n;
	uint32_t alphabet;
};

static uint32_t tokens_of(const struct texts *x)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < x->n; i++)
		sum += x->length[i];
	return sum;
}

/* Whether the n tokens of `part` end at position `end` of text number `text`.
 */
static bool stands(const struct texts *x, uint32_t text, uint32_t end,
	const int32_t *part, uint32_t n)
{
	return n <= end &&
		!memcmp(&x->token[text][end - n], part, n * sizeof(*part));
}

/* Number of occurrences of the n tokens of `part` in all texts; next[] counts
 * the tokens that follow them. */
static uint32_t count(
	const struct texts *x, const int32_t *part, uint32_t n, uint32_t *next)
{
	uint32_t sum = 0;

	memset(next, 0, HERE * sizeof(*next));
	for (uint32_t t = 0; t < x->n; t++)
		for (uint32_t end = 1; end <= x->length[t]; end++) {
			if (!stands(x, t, end, part, n))
				continue;
			sum++;
			if (end < x->length[t])
				next[x->token[t][end]]++;
		}
	return sum;
}

/* Returns the best remaining token in the documented order (most frequent
 * first) and removes it from next[]. Returns -1 if no token is left. */
static int32_t take_best(uint32_t *next)
{
	int32_t best = -1;

	for (int32_t i = 0; i < HERE; i++)
		if (next[i] && (best < 0 || next[i] > next[best]))
			best = i;
	return best;
}

static void check_children(struct suffix_automaton *a, uint32_t state,
	uint32_t *next, const char *what)
{
	struct suffix_child child[SUFFIX_CHILDREN];
	uint32_t n =
		suffix_automaton_children(a, state, child, SUFFIX_CHILDREN);

	for (uint32_t i = 0; i < SUFFIX_CHILDREN; i++) {
		int32_t best = take_best(next);

		if (best < 0) {
			assert_int_equal(n, i);
			return;
		}
		assert_true(i < n);
		if (child[i].token != best ||
			suffix_automaton_count(a, child[i].state) != next[best])
			fail_msg("%s: child %u is %d, %u times, not %d, %u "
				 "times",
				what, i, child[i].token,
				suffix_automaton_count(a, child[i].state), best,
				next[best]);
		next[best] = 0;
	}
	assert_int_equal(n, SUFFIX_CHILDREN);
}

/* For every prefix of a query, check the longest suffix that occurs in any
 * text. */
static void check_query(struct suffix_automaton *a, const struct texts *x,
	const int32_t *query, uint32_t n)
{
	uint32_t next[HERE];
	struct suffix_match m = { 0 };

	for (uint32_t end = 1; end <= n; end++) {
		uint32_t len = end, found = 0;

		while (len && !(found = count(x, query + end - len, len, next)))
			len--;
		suffix_automaton_follow(a, &m, query[end - 1]);
		if (m.len != len)
			fail_msg("a suffix of %u was found, not of %u", m.len,
				len);
		if (!len)
			continue;
		if (suffix_automaton_count(a, m.state) != found)
			fail_msg("a part of %u tokens stands %u times, not %u",
				len, suffix_automaton_count(a, m.state), found);
		check_children(a, m.state, next, "a part of the query");
	}
}

static void check_history(
	struct suffix_automaton *a, const struct texts *x, uint64_t stream)
{
	int32_t query[LENGTH];

	assert_int_equal(suffix_automaton_tokens(a), tokens_of(x));
	assert_int_equal(suffix_automaton_count(a, SUFFIX_ROOT), tokens_of(x));
	check_states(a, stream);
	for (uint32_t i = 0; i < x->n; i++)
		check_query(a, x, x->token[i], x->length[i]);
	copied_text(query, LENGTH, x->alphabet, stream);
	check_query(a, x, query, LENGTH);
}

/* Check the automaton after each text that is added. */
static void test_history(void **state)
{
	static const uint32_t alphabets[] = { 1, 2, 3, 6, 30, 500 };
	struct suffix_automaton *a = open_kind(SUFFIX_HISTORY);
	struct texts x;

	for (uint64_t i = 0; i < 180; i++) {
		x.n = 0;
		x.alphabet = alphabets[i % ARRAY_LEN(alphabets)];
		suffix_automaton_clear(a);
		while (x.n < TEXTS) {
			uint32_t n = copied_below(LENGTH + 1, i, x.n);

			copied_text(x.token[x.n], n, x.alphabet,
				1000 * i + 10 * x.n);
			x.length[x.n++] = n;
			add(a, x.token[x.n - 1], n);
			if (x.n % 4 == 0)
				check_history(a, &x, 1000 * i + 900);
		}
	}
	suffix_automaton_close(a);
}

/* A state gets more children than a block of edges holds. The children are
 * listed again after more were added. */
static void test_many_children(void **state)
{
	struct suffix_automaton *a = open_kind(SUFFIX_HISTORY);
	struct suffix_child child[SUFFIX_CHILDREN];
	struct suffix_match m = { 0 };
	uint32_t next[HERE] = { 0 }, copy[HERE];

	for (uint64_t i = 0; i < 3000; i++) {
		uint32_t some = copied_below(400, 7, i),
			 rare = copied_below(some + 1, 8, i);
		int32_t text[3] = { 5, (int32_t)(10 + rare), (int32_t)(i % 3) };

		add(a, text, 3);
		next[text[1]]++;
		if (i % 100 > 1)
			continue;
		m = (struct suffix_match){ 0 };
		suffix_automaton_follow(a, &m, 5);
		memcpy(copy, next, sizeof(copy));
		check_children(a, m.state, copy, "a token with many followers");
	}
	assert_int_equal(suffix_automaton_children(a, m.state, child, 3), 3);
	suffix_automaton_close(a);
}

/* ---- memory -------------------------------------------------------------- */

#define BIG 100000

typedef void writes(int32_t *text, uint32_t n);

/* A text with the maximum number of states and edges. */
static void write_worst(int32_t *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		t[i] = i == 0 ? 0 : i + 1 < n ? 1 : 2;
}

static void write_fibonacci(int32_t *t, uint32_t n)
{
	uint32_t a = 1, b = 2;

	t[0] = 0;
	t[1] = 1;
	while (b < n) {
		for (uint32_t i = 0; i < a && b + i < n; i++)
			t[b + i] = t[i];
		b += a;
		a = b - a;
	}
}

static void write_same(int32_t *t, uint32_t n)
{
	memset(t, 0, n * sizeof(*t));
}

static void write_distinct(int32_t *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		t[i] = (int32_t)i;
}

static void write_random(int32_t *t, uint32_t n, uint32_t alphabet)
{
	for (uint32_t i = 0; i < n; i++)
		t[i] = (int32_t)copied_below(alphabet, alphabet, i);
}

static void write_bits(int32_t *t, uint32_t n)
{
	write_random(t, n, 2);
}

static void write_letters(int32_t *t, uint32_t n)
{
	write_random(t, n, 26);
}

static void write_hundreds(int32_t *t, uint32_t n)
{
	write_random(t, n, 300);
}

/* Write tokens whose frequencies follow Zipf's law. */
static void write_words(int32_t *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		double u = rng_uniform(copied_seed(), 77, i), x = 1;

		for (; u > 0.1; u -= 0.1)
			x *= 2.8;
		t[i] = (int32_t)(x * (1 + 10 * u));
	}
}

static const struct {
	const char *name;
	writes *write;
} families[] = {
	{ "of most states", write_worst },
	{ "of Fibonacci", write_fibonacci },
	{ "of one token", write_same },
	{ "of distinct tokens", write_distinct },
	{ "of two tokens", write_bits },
	{ "of 26 tokens", write_letters },
	{ "of 300 tokens", write_hundreds },
	{ "of words", write_words },
};

static void check_bytes(enum suffix_kind kind, const int32_t *text, uint32_t n,
	const char *name)
{
	struct suffix_automaton *a = open_kind(kind);
	double bytes, states;

	add(a, text, n);
	bytes = (double)suffix_automaton_bytes(a) / n;
	states = (double)suffix_automaton_states(a) / n;
	print_message("%s %s, %u: %.2f bytes and %.2f states a token\n",
		kind == SUFFIX_TEXT ? "a text" : "a history", name, n, bytes,
		states);
	check_states(a, n);
	if (bytes > 60)
		fail_msg("%.2f bytes a token", bytes);
	suffix_automaton_close(a);
}

static void test_bytes(void **state)
{
	int32_t *text = malloc(BIG * sizeof(*text));

	assert_non_null(text);
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		for (uint32_t n = BIG; n > 1000; n = n / 7 * 4) {
			families[i].write(text, n);
			check_bytes(SUFFIX_TEXT, text, n, families[i].name);
			check_bytes(SUFFIX_HISTORY, text, n, families[i].name);
		}
	free(text);
}

/* If there are more tokens than the indices can count, adding is refused and
 * the existing data is not changed. */
static void test_too_many(void **state)
{
	uint32_t room = 0;
	void *p = NULL;
	struct err e = { 0 };

	assert_ok(suffix_reserve(&p, &room, 10, 4, &e), &e);
	assert_true(room >= 10);
	assert_int_equal(
		suffix_reserve(&p, &room, (uint64_t)SUFFIX_STATES + 1, 4, &e),
		-EFBIG);
	assert_non_null(strstr(e.text, "smaller history"));
	assert_true(room >= 10 && room < 100);
	free(p);
}

/*
 * The steps of adding two tokens, counted by hand. First token: the root is
 * searched for an edge when the token is looked up and when the edge is added;
 * it has none. Second token: the first state is searched in the same way; then
 * the root is searched, and the token of its only edge is read from the text at
 * the position of the edge's target.
 */
static void test_steps(void **state)
{
	struct suffix_automaton *a = open_kind(SUFFIX_TEXT);
	const int32_t t[] = { 5, 6 };
	struct suffix_match m = { 0 };

	work = (struct search_work){ 0 };
	add(a, t, 1);
	assert_int_equal(work.steps, 2);
	add(a, t + 1, 1);
	assert_int_equal(work.steps, 2 + 2 + 1 + 2 + 2);
	/* The root has a block of two edges now. */
	work.steps = 0;
	suffix_automaton_follow(a, &m, 5);
	assert_int_equal(m.len, 1);
	assert_int_equal(work.steps, 2);
	suffix_automaton_close(a);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_again),
	cmocka_unit_test(test_history),
	cmocka_unit_test(test_many_children),
	cmocka_unit_test(test_bytes),
	cmocka_unit_test(test_too_many),
	cmocka_unit_test(test_steps),
};

TEST_FILE(tests)
