/*
 * The drafter recycle with a scripted target: which tokens it stores from the
 * target's logits, and when it uses them.
 */
#include "base/opt.h"
#include "host/draft/drafting.h"
#include "host/model/model.h"
#include "tests/host/draft/source_check.h"

#include <math.h>

#define VOCAB 40

struct bench {
	struct model target;
	struct opt_values values;
	struct drafter d;
	struct tree *t;
};

static void open_bench(struct bench *b, uint32_t vocab)
{
	struct draft_site site = { .values = &b->values, .rows = 8 };
	struct err e = { 0 };

	b->target.n_vocab = vocab;
	site.target = &b->target;
	b->d = open_drafter(&draft_kind_recycle, &site);
	assert_ok(tree_open(&b->t, 8, 8, &e), &e);
}

static void close_bench(struct bench *b)
{
	tree_close(b->t);
	drafter_close(&b->d);
}

static void begin(struct bench *b, const int32_t *text, size_t n)
{
	struct err e = { 0 };

	assert_ok(b->d.begin(b->d.arg, b->t, text, n, &e), &e);
}

/* Give node `node` logits whose best tokens are `first`, first + 1 and so
 * on. */
static void show(struct bench *b, uint32_t node, int32_t first)
{
	float logits[VOCAB];

	for (int32_t i = 0; i < VOCAB; i++)
		logits[i] = (float)(i < first ? -VOCAB - i : -i);
	b->d.computed(b->d.arg, b->t, node, logits, b->target.n_vocab);
}

static void check_first(
	const struct bench *b, uint32_t node, uint32_t n, int32_t first)
{
	const struct candidate *c = b->t->candidate + (size_t)node * b->t->k;

	if (b->t->n_candidates[node] != n)
		fail_msg("%u candidates, not %u", b->t->n_candidates[node], n);
	for (uint32_t i = 0; i < n; i++) {
		if (c[i].token != first + (int32_t)i)
			fail_msg("candidate %u is %d, not %d", i, c[i].token,
				first + (int32_t)i);
		assert_true(c[i].q > 0 && c[i].q < 1);
	}
}

static uint32_t add_token(struct bench *b, uint32_t parent, int32_t token)
{
	return tree_add(b->t, parent, (struct candidate){ token, 0.5f });
}

/* The eight best tokens of a verified token's logits are stored, and are
 * drafted after the same token later. A token without stored logits has no
 * candidates. */
static void test_rows(void **state)
{
	struct bench b = { 0 };
	const int32_t text[] = { 3, 4, 5, 3 };

	open_bench(&b, VOCAB);
	begin(&b, text, 1);
	check_first(&b, 0, 0, 0);
	show(&b, 0, 20);
	/* Nothing is stored for token 4, the last token of this text. */
	begin(&b, text, 2);
	check_first(&b, 0, 0, 0);
	begin(&b, text, 4);
	check_first(&b, 0, 8, 20);
	close_bench(&b);
}

static void test_small_vocabulary(void **state)
{
	struct bench b = { 0 };
	const int32_t text[] = { 3 };

	open_bench(&b, 5);
	begin(&b, text, 1);
	show(&b, 0, 0);
	begin(&b, text, 1);
	check_first(&b, 0, 5, 0);
	close_bench(&b);
}

static void test_not_numbers(void **state)
{
	struct bench b = { 0 };
	float logits[VOCAB];
	const int32_t text[] = { 3 };

	for (uint32_t i = 0; i < VOCAB; i++)
		logits[i] = i < 30 ? NAN : -INFINITY;
	open_bench(&b, VOCAB);
	begin(&b, text, 1);
	b.d.computed(b.d.arg, b.t, 0, logits, VOCAB);
	begin(&b, text, 1);
	check_first(&b, 0, 8, 0);
	close_bench(&b);
}

/* If several rows (nodes of the tree) have the same token, the logits of the
 * deepest row are stored, and among rows of the same depth the last one. */
static void test_duplicates(void **state)
{
	struct bench b = { 0 };
	const int32_t text[] = { 3 }, next[] = { 3, 4, 7 };
	uint32_t above, below, beside;

	open_bench(&b, VOCAB);
	begin(&b, text, 1);
	above = add_token(&b, 0, 4);
	below = add_token(&b, above, 7);
	add_token(&b, 0, 7);
	beside = b.t->n - 1;
	show(&b, 0, 10);
	show(&b, above, 11);
	show(&b, below, 12);
	show(&b, beside, 13);
	begin(&b, next, 3);
	check_first(&b, 0, 8, 12);
	begin(&b, next, 2);
	check_first(&b, 0, 8, 11);
	begin(&b, text, 1);
	add_token(&b, 0, 4);
	add_token(&b, add_token(&b, 0, 5), 7);
	add_token(&b, 1, 7);
	show(&b, 3, 14);
	show(&b, 4, 15);
	begin(&b, next, 3);
	check_first(&b, 0, 8, 15);
	close_bench(&b);
}

/* If the correct token had the same rank repeatedly, this rank's token becomes
 * the first candidate. */
static void test_ranks(void **state)
{
	struct bench b = { 0 };
	const int32_t text[] = { 3 };

	open_bench(&b, VOCAB);
	begin(&b, text, 1);
	for (int32_t i = 0; i < 40; i++) {
		show(&b, 0, 2 + i % 20);
		begin(&b, text, 1);
	}
	/* The successors stored last for token 3 begin with 21. The correct
	 * token had the second rank each time, so 22, which has this rank,
	 * comes first. */
	assert_int_equal(b.t->n_candidates[0], 8);
	assert_int_equal(b.t->candidate[0].token, 22);
	assert_true(b.t->candidate[0].q > 3 * b.t->candidate[1].q);
	close_bench(&b);
}

/* With the option recycle-rows=all the drafter learns from the device's
 * predictions after every row instead of from logits. No successors are stored
 * for tokens without predictions. */
static void test_all_rows(void **state)
{
	static const struct candidate likely[] = { { .token = 20, .q = 0.5f },
		{ .token = 21, .q = 0.2f } };
	const int32_t text[] = { 3 };
	struct bench b = { 0 };
	struct err e = { 0 };

	open_bench(&b, VOCAB);
	assert_null(b.d.verified);
	close_bench(&b);
	assert_ok(
		opt_set(drafting_tables, &b.values, "recycle-rows", "all", &e),
		&e);
	open_bench(&b, VOCAB);
	assert_null(b.d.computed);
	begin(&b, text, 1);
	b.d.verified(b.d.arg, b.t, 0, likely, 2);
	begin(&b, text, 1);
	check_first(&b, 0, 2, 20);
	close_bench(&b);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_rows),
	cmocka_unit_test(test_small_vocabulary),
	cmocka_unit_test(test_not_numbers),
	cmocka_unit_test(test_duplicates),
	cmocka_unit_test(test_ranks),
	cmocka_unit_test(test_all_rows),
};

TEST_FILE(tests)
