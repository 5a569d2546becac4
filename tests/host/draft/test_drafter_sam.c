/*
 * The drafter sam compared with the rule of SAM-Decoding, which the test
 * computes by a search over every position. The tests cover chains with and
 * without a history, and the further candidates of trees. After a text is
 * replaced by another, drafts must not use the old text.
 */
#include "base/checked.h"
#include "host/draft/drafter_sam.h"
#include "host/draft/source.h"
#include "tests/host/draft/opened_kind.h"
#include "tests/host/text/history_file.h"

#include <math.h>

#define TEXT   160
#define MEMORY 24 /* maximum records of a history */
#define RECORD 60

static const struct sam_options usual = { 4, 0, 40, 8, 5 };

/* Records in the order in which they were appended. The tests search all of
 * them. */
struct memory {
	int32_t id[MEMORY][RECORD];
	uint32_t length[MEMORY], n;
};

static void open_sam(struct source *out, const struct sam_options *o,
	const struct history *h)
{
	struct err e = { 0 };

	assert_ok(sam_source_open(out, o, h, NULL, &e), &e);
}

static struct drafter open_drafter(
	const struct sam_options *o, const struct history *h)
{
	struct source source;
	struct drafter d;
	struct err e = { 0 };

	open_sam(&source, o, h);
	assert_ok(source_drafter_open(&d, &source, &e), &e);
	return d;
}

/* ---- the rule ------------------------------------------------------------ */

/* Number of equal tokens directly before x[a] and before y[b]. */
static uint32_t common(
	const int32_t *x, uint32_t a, const int32_t *y, uint32_t b)
{
	uint32_t n = 0;

	while (n < a && n < b && x[a - 1 - n] == y[b - 1 - n])
		n++;
	return n;
}

static uint32_t in_text(const int32_t *text, uint32_t n, uint32_t *first)
{
	uint32_t best = 0;

	for (uint32_t end = 1; end < n; end++) {
		uint32_t len = common(text, end, text, n);

		if (len > best) {
			best = len;
			*first = end;
		}
	}
	return best;
}

static uint32_t in_memory(
	const struct memory *m, const int32_t *text, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t end = 1; end <= m->length[i]; end++) {
			uint32_t len = common(m->id[i], end, text, n);

			best = len > best ? len : best;
		}
	return best;
}

/* Number of positions in the records where the n tokens of `part` are followed
 * by the token `next`. If `next` is -1, any token or the end of the record may
 * follow. */
static uint32_t times(
	const struct memory *m, const int32_t *part, uint32_t n, int32_t next)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t end = n; end <= m->length[i]; end++)
			if (common(m->id[i], end, part, n) == n &&
				(next < 0 ||
					(end < m->length[i] &&
						m->id[i][end] == next)))
				sum++;
	return sum;
}

/* Returns the token that follows the n tokens of `part` most often. */
static int32_t most_frequent(
	const struct memory *m, const int32_t *part, uint32_t n)
{
	uint32_t most = 0;
	int32_t best = -1;

	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t end = n; end < m->length[i]; end++) {
			int32_t t = m->id[i][end];
			uint32_t k;

			if (common(m->id[i], end, part, n) < n)
				continue;
			k = times(m, part, n, t);
			if (k < most || (k == most && t >= best && best >= 0))
				continue;
			most = k;
			best = t;
		}
	return best;
}

static uint32_t rule(const struct sam_options *o, const struct memory *m,
	const int32_t *text, uint32_t n, int32_t *out)
{
	uint32_t first = 0, here = in_text(text, n, &first), k = 0;
	uint32_t there = in_memory(m, text, n), most;
	double match = fmax(here, (double)there - o->bias);
	int32_t path[RECORD + COPIED_CHAIN];

	if (match <= 0)
		return 0;
	most = (uint32_t)(1 + o->alpha * match);
	most = most < o->least ? o->least : most;
	most = (most > o->most ? o->most : most) - 1;
	if (here >= match) {
		for (; k < most && first + k < n; k++)
			out[k] = text[first + k];
		return k;
	}
	memcpy(path, text + n - there, there * sizeof(*path));
	for (; k < most; k++) {
		out[k] = most_frequent(m, path, there + k);
		if (out[k] < 0)
			break;
		path[there + k] = out[k];
	}
	return k;
}

static void check_rule(const struct drafter *d, const struct sam_options *o,
	const struct memory *m, const int32_t *text, uint32_t n)
{
	int32_t got[COPIED_CHAIN], want[COPIED_CHAIN];
	uint32_t k = copied_chain(d, text, n, got);

	copied_same(got, k, want, rule(o, m, text, n, want), "the chain", n);
}

/* The text grows by a few tokens at a time, as in decoding. */
static void test_text(void **state)
{
	static const struct sam_options some[] = { { 4, 0, 40, 8, 5 },
		{ 0.5, 0, 7, 1, 0 }, { 1, 0, 256, 16, 1 }, { 4, 10, 40, 8, 5 },
		{ 1, 12, 8, 8, 5 } };
	static const uint32_t alphabets[] = { 2, 5, 60, 2000 };
	const struct memory none = { .n = 0 };
	int32_t text[TEXT];

	for (uint64_t i = 0; i < 60; i++) {
		const struct sam_options *o = &some[i % ARRAY_LEN(some)];
		struct drafter d = open_drafter(o, NULL);

		copied_text(text, TEXT, alphabets[i % 4], 100 * i);
		for (uint32_t n = 1; n <= TEXT;
			n += 1 + copied_below(4, 3 + 100 * i, n))
			check_rule(&d, o, &none, text, n);
		drafter_close(&d);
	}
}

/* ---- with a history ------------------------------------------------------ */

static void remember(
	struct history *h, struct memory *m, const int32_t *text, uint32_t n)
{
	const struct history_record r = {
		.time = 1, .id = text, .n_prompt = 1, .n = n
	};
	struct err e = { 0 };

	assert_ok(history_append(h, &r, 1, &e), &e);
	memcpy(m->id[m->n], text, n * sizeof(*text));
	m->length[m->n++] = n;
}

/* Fill a text with pieces of the records, so that matches are long. */
static void quote(int32_t *text, uint32_t n, const struct memory *m,
	uint32_t alphabet, uint64_t stream)
{
	copied_text(text, n, alphabet, stream);
	for (uint32_t i = 0; i + 24 <= n; i += 24) {
		uint32_t r = copied_below(m->n, stream + 5, i);
		uint32_t from = copied_below(RECORD - 16, stream + 6, i);

		memcpy(text + i, m->id[r] + from, 16 * sizeof(*text));
	}
}

/* Some records exist when the drafter is opened, and others are added later. */
static void test_history(void **state)
{
	static const uint32_t alphabets[] = { 3, 30, 2000 };
	uint32_t by_history = 0;
	int32_t text[TEXT];

	for (uint64_t i = 0; i < 6; i++) {
		static struct memory m;
		struct history *h;
		struct drafter d;

		m.n = 0;
		history_fresh();
		h = history_opened(1 << 20);
		for (uint64_t k = 0; k < 6; k++) {
			copied_text(text, RECORD, alphabets[i % 3],
				1000 * i + 10 * k + 7);
			remember(h, &m, text, RECORD);
		}
		d = open_drafter(&usual, h);
		for (uint64_t k = 0; k < 6; k++) {
			quote(text, TEXT, &m, alphabets[i % 3],
				1000 * i + 10 * k + 500);
			for (uint32_t n = 1; n <= TEXT; n += 11) {
				uint32_t at;

				check_rule(&d, &usual, &m, text, n);
				by_history += in_memory(&m, text, n) >
					in_text(text, n, &at) + usual.bias;
				/* A part of the text that is being drafted is
				 * added as a record. */
				if (n == 67)
					remember(h, &m, text + 40, RECORD);
			}
		}
		drafter_close(&d);
		history_close(h);
	}
	print_message("%u chains by the history\n", by_history);
	assert_true(by_history > 100);
}

/* ---- candidates for trees ------------------------------------------------ */

static void check_once(const struct source_guess *g, uint32_t n)
{
	double sum[4] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		assert_true(g[i].origin < 4 && g[i].share > 0);
		for (uint32_t j = 0; j < n; j++) {
			if (g[j].origin == g[i].origin &&
				g[j].match == g[i].match)
				sum[g[i].origin] += (double)g[j].share;
			if (i != j && g[j].origin % 2 == g[i].origin % 2 &&
				g[j].token == g[i].token)
				fail_msg("%d is guessed twice by one memory",
					g[i].token);
		}
		if (sum[g[i].origin] > 1.00001)
			fail_msg("shares of origin %u come to %g", g[i].origin,
				sum[g[i].origin]);
		sum[g[i].origin] = 0;
	}
}

static uint32_t different(
	const struct memory *m, const int32_t *part, uint32_t n)
{
	uint32_t sum = 0;

	for (int32_t t = 0; t < 64; t++)
		sum += times(m, part, n, t) > 0;
	return sum < usual.children ? sum : usual.children;
}

/* The probability that PPMC (prediction by partial matching, method C) gives to
 * a token which followed the last `match` of n tokens. A longer match leaves a
 * share of the probability to the shorter matches, if the longer match occurs
 * less often than the next shorter one. */
static double share_of(const struct memory *m, const int32_t *text, uint32_t n,
	uint32_t match, int32_t token)
{
	uint32_t len = in_memory(m, text, n), all, kinds;
	double left = 1;

	for (; len > match; len--) {
		all = times(m, text + n - len, len, -1);
		kinds = different(m, text + n - len, len);
		if (times(m, text + n - len + 1, len - 1, -1) > all)
			left *= kinds ? kinds / (double)(all + kinds) : 1;
	}
	all = times(m, text + n - len, len, -1);
	kinds = different(m, text + n - len, len);
	return left * times(m, text + n - len, len, token) / (all + kinds);
}

/* Check a guess. The share of a guess from the history must be the probability
 * that share_of computes. The token of a guess from the text must follow an
 * earlier occurrence, in the text, of the text's last `match` tokens. */
static void check_ground(const struct source_guess *g, const struct memory *m,
	const int32_t *text, uint32_t n)
{
	bool stands = false;

	if (g->origin % 2) {
		assert_close((double)g->share,
			share_of(m, text, n, g->match, g->token), 1e-6,
			"a share of the history");
		return;
	}
	for (uint32_t end = g->match; end < n; end++)
		stands |= text[end] == g->token &&
			common(text, end, text, n) >= g->match;
	if (!stands)
		fail_msg("%d never followed the last %u of %u tokens", g->token,
			g->match, n);
}

static void check_tree(const struct source *s, const struct memory *m,
	const int32_t *text, uint32_t n, uint32_t *more)
{
	struct source_guess g[64];
	struct source_place p;
	int32_t own[COPIED_CHAIN];
	uint32_t k, length = rule(&usual, m, text, n, own);
	struct err e = { 0 };
	bool has = !length;

	assert_ok(s->take(s->arg, text, n, 0, &e), &e);
	s->root(s->arg, &p);
	k = s->guesses(s->arg, &p, 0, g, ARRAY_LEN(g));
	check_once(g, k);
	for (uint32_t i = 0; i < k; i++) {
		check_ground(&g[i], m, text, n);
		has |= g[i].token == own[0];
	}
	assert_true(has);
	*more += k > 1;
	assert_int_equal(s->guesses(s->arg, &p, usual.most - 1, g, 64), 0);
}

static void test_tree(void **state)
{
	static struct memory m;
	struct history *h;
	struct source s;
	int32_t text[TEXT];
	uint32_t more = 0;

	m.n = 0;
	history_fresh();
	h = history_opened(1 << 20);
	for (uint64_t k = 0; k < 12; k++) {
		copied_text(text, RECORD, 12, 7 + 10 * k);
		remember(h, &m, text, RECORD);
	}
	open_sam(&s, &usual, h);
	for (uint64_t k = 0; k < 8; k++) {
		quote(text, TEXT, &m, 12, 500 + 10 * k);
		for (uint32_t n = 1; n <= TEXT; n += 3)
			check_tree(&s, &m, text, n, &more);
	}
	assert_true(more > 100);
	s.close(s.arg);
	history_close(h);
}

/* If the whole path occurs nowhere, the guesses come from earlier occurrences
 * of the path's last tokens. */
static void test_other_path(void **state)
{
	const int32_t text[] = { 1, 2, 3, 4, 9, 5, 6, 7, 1, 2 };
	struct source_guess g[64];
	struct source_place p;
	struct source s;
	struct err e = { 0 };

	open_sam(&s, &usual, NULL);
	assert_ok(s.take(s.arg, text, ARRAY_LEN(text), 0, &e), &e);
	s.root(s.arg, &p);
	s.step(s.arg, &p, 5);
	assert_int_equal(s.guesses(s.arg, &p, 1, g, 64), 1);
	assert_int_equal(g[0].token, 6);
	assert_int_equal(g[0].match, 0);
	s.step(s.arg, &p, 8);
	assert_int_equal(s.guesses(s.arg, &p, 2, g, 64), 0);
	s.close(s.arg);
}

/* ---- truncated and replaced texts ---------------------------------------- */

static void check_same(const struct source *a, const struct source *b)
{
	struct source_guess x[64], y[64];
	struct source_place p, q;
	uint32_t n, m;

	a->root(a->arg, &p);
	b->root(b->arg, &q);
	for (uint32_t depth = 0; depth < 20; depth++) {
		n = a->guesses(a->arg, &p, depth, x, 64);
		m = b->guesses(b->arg, &q, depth, y, 64);
		assert_int_equal(n, m);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(x[i].token, y[i].token);
			assert_int_equal(x[i].origin, y[i].origin);
			assert_int_equal(x[i].match, y[i].match);
		}
		if (!n)
			return;
		a->step(a->arg, &p, x[n - 1].token);
		b->step(b->arg, &q, x[n - 1].token);
	}
}

static void test_taken_back(void **state)
{
	struct source a, b;
	int32_t text[TEXT], other[TEXT];
	struct err e = { 0 };

	open_sam(&a, &usual, NULL);
	for (uint64_t i = 0; i < 40; i++) {
		uint32_t same = copied_below(TEXT - 20, 9, i);

		copied_text(other, TEXT, 6, 100 * i);
		copied_text(text, TEXT, 6, 100 * i + 50);
		memcpy(text, other, same * sizeof(*text));
		assert_ok(a.take(a.arg, other, TEXT, 0, &e), &e);
		assert_ok(a.take(a.arg, text, TEXT - 10, same, &e), &e);
		assert_ok(a.take(a.arg, text, TEXT, TEXT - 10, &e), &e);
		open_sam(&b, &usual, NULL);
		assert_ok(b.take(b.arg, text, TEXT, 0, &e), &e);
		check_same(&a, &b);
		b.close(b.arg);
	}
	a.close(a.arg);
}

static void test_length(void **state)
{
	kind_has_length(&draft_kind_sam, 39);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_history),
	cmocka_unit_test(test_tree),
	cmocka_unit_test(test_other_path),
	cmocka_unit_test(test_taken_back),
	cmocka_unit_test(test_length),
};

TEST_FILE(tests)
