/*
 * The drafter rest compared with counts of the tokens that follow the longest
 * matching span.
 */
#include "base/opt.h"
#include "host/draft/drafting.h"
#include "host/draft/reliance.h"
#include "tests/host/draft/drawn_text.h"
#include "tests/host/draft/source_check.h"
#include "tests/host/text/history_file.h"

#include <errno.h>
#include <math.h>

/* number of different tokens, fewer than a node can have candidates */
#define KINDS   8
#define FURTHER 10
#define DRAFTED 64

/* Length of the longest suffix of the text that is in the store, among suffixes
 * of 2 to 16 tokens; 0 if the store has none of them. */
static uint32_t span_of(const struct text *x, const int32_t *text, uint32_t n)
{
	for (uint32_t span = n < 16 ? n : 16; span >= 2; span--)
		if (count(x, text + n - span, span))
			return span;
	return 0;
}

struct checked {
	const struct drafter *d;
	const struct text *x;
	struct tree *t;
	int32_t path[16 + FURTHER + 1]; /* the span and the tokens after it */
	uint32_t span;
	struct reliance reliance;
	uint32_t nodes; /* number of drafted nodes */
	/* Smallest count of a drafted token, and largest count of a token that
	 * was not drafted. */
	uint32_t rarest, best_out;
};

static void check_candidate(struct checked *c, uint32_t depth,
	const struct candidate *got, uint32_t all, uint32_t is)
{
	const struct grounds g = { 0, c->span, depth };
	double want = (double)is / all * reliance_of(&c->reliance, &g);

	if (fabs((double)got->q - want) > 1e-6)
		fail_msg("token %d at depth %u: %g, not %g", got->token, depth,
			(double)got->q, want);
	c->nodes++;
	c->rarest = is < c->rarest ? is : c->rarest;
}

/* Check all children of a node that is `depth` tokens after the span. `all` is
 * the number of occurrences of the path. Tokens that were not drafted must not
 * be more frequent than drafted ones. */
static void check_node(struct checked *c, uint32_t node, uint32_t depth)
{
	const struct candidate *got = c->t->candidate + (size_t)node * c->t->k;
	uint32_t all = count(c->x, c->path, c->span + depth), known = 0;
	struct err e = { 0 };

	if (node)
		assert_ok(c->d->expand(c->d->arg, c->t, &node, 1, &e), &e);
	for (int32_t k = 0; k < KINDS && depth < FURTHER; k++) {
		uint32_t is, i = 0;

		c->path[c->span + depth] = k;
		is = count(c->x, c->path, c->span + depth + 1);
		while (i < c->t->n_candidates[node] && got[i].token != k)
			i++;
		if (i == c->t->n_candidates[node]) {
			c->best_out = is > c->best_out ? is : c->best_out;
			continue;
		}
		known++;
		check_candidate(c, depth, &got[i], all, is);
		check_node(c, tree_add(c->t, node, got[i]), depth + 1);
	}
	assert_int_equal(known, c->t->n_candidates[node]);
}

static void check_text(const struct drafter *d, const struct text *x,
	const int32_t *text, uint32_t n, struct tree *t)
{
	struct checked c = { .d = d, .x = x, .t = t, .rarest = UINT32_MAX };
	struct err e = { 0 };

	reliance_init(&c.reliance);
	/* The drafter reads the history only when a text begins that does not
	 * continue the previous text, so begin another text first. */
	assert_ok(d->begin(d->arg, t, &(int32_t){ KINDS }, 1, &e), &e);
	assert_ok(d->begin(d->arg, t, text, n, &e), &e);
	c.span = span_of(x, text, n);
	if (!c.span) {
		assert_int_equal(t->n_candidates[0], 0);
		return;
	}
	memcpy(c.path, text + n - c.span, c.span * sizeof(*text));
	check_node(&c, 0, 0);
	assert_true(c.nodes <= DRAFTED);
	if (c.best_out && c.nodes < DRAFTED)
		fail_msg("%u drafted, and one that came %u times is not",
			c.nodes, c.best_out);
	if (c.best_out > c.rarest)
		fail_msg("one that came %u times is drafted, one of %u is not",
			c.rarest, c.best_out);
}

static void add_record(struct history *h, struct text *x, struct draw *d)
{
	uint32_t n = 1 + below(d, 80), begin = x->n;
	uint32_t from = begin ? below(d, begin) : 0;
	struct history_record r = { .n = n };
	struct err e = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		int32_t copied = from + i < begin ? x->token[from + i] : -1;

		x->token[x->n++] = copied >= 0 && below(d, 12)
			? copied
			: (int32_t)below(d, KINDS);
	}
	r.id = x->token + begin;
	assert_ok(history_append(h, &r, 1, &e), &e);
	x->token[x->n++] = -1;
}

static void test_random(void **state)
{
	struct draw d = { .seed = harness_seed() };
	struct opt_values v = { 0 };
	struct draft_site site = { .values = &v, .word = "" };
	struct text *x = calloc(1, sizeof(*x));
	struct tree *t;
	struct err e = { 0 };

	assert_non_null(x);
	assert_ok(tree_open(&t, 128, 16, &e), &e);
	for (; d.round < 20; d.round++) {
		struct history *h;
		struct drafter drafter;

		history_fresh();
		site.history = h = history_opened(1 << 20);
		drafter = open_drafter(&draft_kind_rest, &site);
		x->n = 0;
		while (x->n < MOST - 100) {
			int32_t text[40];
			uint32_t n = 1 + below(&d, 39);
			uint32_t from = x->n ? below(&d, x->n) : 0;

			add_record(h, x, &d);
			for (uint32_t i = 0; i < n; i++) {
				text[i] = x->token[(from + i) % x->n];
				if (text[i] < 0 || !below(&d, 30))
					text[i] = (int32_t)below(&d, KINDS);
			}
			check_text(&drafter, x, text, n, t);
		}
		drafter_close(&drafter);
		history_close(h);
	}
	tree_close(t);
	free(x);
}

static void test_needs_a_datastore(void **state)
{
	struct opt_values v = { 0 };
	const struct draft_site site = { .values = &v, .word = "" };
	struct drafter d;
	struct err e = { 0 };

	assert_int_equal(draft_kind_rest.open(&d, &site, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--history"));
	assert_int_equal(draft_kind_rest_file.check("rest:", "", &e), -EINVAL);
	assert_int_equal(draft_kind_rest_file.check("rest:x", "x", &e), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_needs_a_datastore),
};

TEST_FILE(tests)
