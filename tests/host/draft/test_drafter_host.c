/*
 * The drafter whose draft model runs on the host. The candidates equal those
 * that the test computes from all logits, for any order of expansions.
 * Candidates that begin() reuses equal, bit for bit, those of a new drafter. A
 * count of computed rows checks that a token is not computed again if it was a
 * speculative row of the previous tree.
 */
#include "base/err.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafter_host.h"
#include "host/draft/guess.h"
#include "host/model/model.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/draft/drafter_check.h"
#include "tests/host/model/model_file.h"

#include <errno.h>

#define MOST 256 /* maximum tokens of a text */

struct fixture {
	struct model_file file;
	struct model *model;
	struct draft_model *draft, *plain;
	struct drafter d, fresh;
	struct tree *t, *u;
	uint32_t context;
	int32_t text[MOST];
	/* The test counts computed rows by the floating-point operations that
	 * the draft model reports: `first` for a row whose logits are read, and
	 * `more` for each further row. */
	struct soc soc;
	uint64_t first, more;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	drafter_close(&f->d);
	drafter_close(&f->fresh);
	draft_close(f->draft);
	draft_close(f->plain);
	model_close(f->model);
	tree_close(f->t);
	tree_close(f->u);
	free(f);
	return 0;
}

static uint64_t flops(struct draft_model *d)
{
	struct price price = { 0 };

	draft_take_price(d, &price);
	return price.counts.cpu_flops;
}

static void price_a_row(struct fixture *f)
{
	const float *logits;
	struct err e = { 0 };

	for (unsigned i = 0; i < SOC_COUNT; i++)
		soc_set(&f->soc, i, soc_numbers[i].upper);
	draft_price_for(f->draft, &f->soc, NULL, (struct shape_type){ 0 });
	assert_ok(draft_append(f->draft, f->text, 1, &logits, &e), &e);
	f->first = flops(f->draft);
	assert_ok(draft_append(f->draft, f->text, 2, &logits, &e), &e);
	f->more = flops(f->draft) - f->first;
	assert_true(f->first > 0 && f->more > 0);
}

/* Returns the number of rows computed since this function was last called. */
static uint64_t computed(struct fixture *f)
{
	uint64_t n = flops(f->draft);

	assert_true(!n || (n - f->first) % f->more == 0);
	return n ? 1 + (n - f->first) / f->more : 0;
}

static void open_drafter(
	struct fixture *f, enum draft_arithmetic a, uint32_t batch, uint32_t k)
{
	struct err e = { 0 };

	if (!f->model) {
		f->model = model_file_open(&f->file);
		assert_ok(draft_open(&f->draft, f->model, NULL, a, f->context,
				  1, &e),
			&e);
		assert_ok(
			draft_open(&f->plain, f->model, NULL, a, 0, 1, &e), &e);
		check_tokens(f->text, MOST, 1, f->file.n_vocab);
		price_a_row(f);
	}
	drafter_close(&f->d);
	tree_close(f->t);
	tree_close(f->u);
	f->t = check_tree(k);
	f->u = check_tree(k);
	draft_truncate(f->draft, 0);
	assert_ok(drafter_host_open(&f->d, f->draft, batch, &e), &e);
}

/* Begin the tree u with a new drafter. */
static void begin_fresh(struct fixture *f, const int32_t *text, size_t n)
{
	struct err e = { 0 };

	drafter_close(&f->fresh);
	draft_truncate(f->plain, 0);
	assert_ok(drafter_host_open(&f->fresh, f->plain, 3, &e), &e);
	check_begin(&f->fresh, f->u, text, n);
}

/* ---- candidates computed from all logits --------------------------- */

struct ranked {
	double p;
	int32_t token;
};

static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->p > y->p || x->p < y->p)
		return x->p > y->p ? -1 : 1;
	return x->token - y->token;
}

/* Compare the candidates of a node with the whole vocabulary, sorted by
 * probability. */
static void check_definition(const struct fixture *f, const struct tree *t,
	uint32_t node, const float *logits, double temperature)
{
	struct ranked r[96];
	double sum = 0;

	for (int32_t v = 0; v < 96; v++) {
		r[v] = (struct ranked){ exp((double)logits[v] / temperature),
			v };
		sum += r[v].p;
	}
	qsort(r, 96, sizeof(r[0]), by_rank);
	assert_int_equal(t->n_candidates[node], t->k);
	for (uint32_t i = 0; i < t->k; i++) {
		const struct candidate *c = &t->candidate[node * t->k + i];

		assert_int_equal(c->token, r[i].token);
		assert_close((double)c->q, r[i].p / sum, 1e-6, "q");
	}
}

static void check_all_nodes(
	struct fixture *f, uint32_t n, uint32_t depth, double temperature)
{
	struct err e = { 0 };

	for (uint32_t i = 0; i < f->t->n; i++) {
		int32_t all[MOST];
		const float *logits;
		uint32_t below;

		if (f->t->depth[i] >= depth)
			continue;
		memcpy(all, f->text, n * sizeof(*all));
		below = check_path(f->t, i, all + n);
		draft_truncate(f->plain, 0);
		assert_ok(draft_append(f->plain, all, n + below, &logits, &e),
			&e);
		check_definition(f, f->t, i, logits, temperature);
	}
}

static void test_candidates_are_the_definition(void **state)
{
	const struct growth g = { 4, 3, 7, 1 };
	struct fixture *f = *state;

	for (uint32_t k = 3; k <= TREE_CANDIDATES; k += 13) {
		open_drafter(f, DRAFT_F32, 4, k);
		check_begin(&f->d, f->t, f->text, 30);
		check_grow(&f->d, f->t, &g);
		assert_int_equal(f->t->n, 1 + 3 + 9 + 27 + 81);
		check_all_nodes(f, 30, 4, 1);
	}
}

static void test_temperature(void **state)
{
	const struct growth g = { 2, 2, 1, 1 };
	struct fixture *f = *state;

	open_drafter(f, DRAFT_F32, 4, 8);
	drafter_host_temperature(&f->d, 0.5f);
	check_begin(&f->d, f->t, f->text, 7);
	check_grow(&f->d, f->t, &g);
	check_all_nodes(f, 7, 2, 0.5);
}

/* ---- logits that no model gives ------------------------------------------ */

static void is_guess(const struct guess *g, uint32_t n, const int32_t *token,
	const double *q)
{
	assert_int_equal(g->n, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(g->c[i].token, token[i]);
		assert_close((double)g->c[i].q, q[i], 1e-7, "q");
	}
}

/* Bytes that the CPU of a phone reads to expand n nodes together. */
static uint64_t bytes_of(struct fixture *f, uint32_t batch, uint32_t n)
{
	uint32_t node[8];
	struct price price = { 0 };

	open_drafter(f, DRAFT_F32, batch, 8);
	check_begin(&f->d, f->t, f->text, 5);
	for (uint32_t i = 0; i < n; i++)
		node[i] = tree_add(f->t, 0, f->t->candidate[i]);
	draft_take_price(f->draft, &price);
	price = (struct price){ 0 };
	check_expand(&f->d, f->t, node, n);
	draft_take_price(f->draft, &price);
	return price.counts.cpu_bytes;
}

/* For all nodes that are expanded in one call, the weights are read once,
 * unless a batch size limits the nodes of a pass. A call with one node expands
 * only this node. */
static void test_together(void **state)
{
	struct fixture *f = *state;
	uint64_t once = bytes_of(f, 8, 8);

	assert_true(bytes_of(f, 0, 8) == once);
	assert_int_equal(f->d.batch, 1);
	assert_true(bytes_of(f, 1, 8) > 2 * once);
	assert_true(bytes_of(f, 0, 1) < once);
}

static void test_long_vocabulary(void **state)
{
	enum { N = 50021 };
	float *logits = malloc(N * sizeof(*logits));
	struct guess g;

	for (float t = 0.5f; t < 20; t *= 6) {
		double sum = 0;

		for (uint32_t i = 0; i < N; i++) {
			logits[i] = (float)check_below(1 << 20, 40, i) / 8192;
			sum += exp((double)logits[i] / (double)t);
		}
		guess_logits(&g, logits, N, t);
		assert_int_equal(g.n, TREE_CANDIDATES);
		for (uint32_t i = 0; i < g.n; i++) {
			double l = (double)logits[g.c[i].token];
			double q = exp(l / (double)t) / sum;

			assert_close((double)g.c[i].q, q, 4e-6 * q, "q");
		}
	}
	free(logits);
}

static void test_odd_logits(void **state)
{
	const float equal[] = { 1, 2, 1, 2, 2 };
	const float odd[] = { NAN, -INFINITY, 3, NAN, 3 };
	const float nothing[] = { NAN, -INFINITY, NAN };
	const float too_much[] = { 1, INFINITY, 2 };
	/* Increasing logits whose differences are too small to give different
	 * probabilities. */
	const float close[] = { 0x1p-30f, 0x2p-30f, 0x3p-30f };
	const double low = 1 / (3 * exp(1) + 2), high = exp(1) * low;
	float many[50];
	struct guess g;

	guess_logits(&g, equal, 5, 1);
	is_guess(&g, 5, (int32_t[]){ 1, 3, 4, 0, 2 },
		(double[]){ high, high, high, low, low });
	guess_logits(&g, odd, 5, 1);
	is_guess(&g, 2, (int32_t[]){ 2, 4 }, (double[]){ .5, .5 });
	guess_logits(&g, nothing, 3, 1);
	assert_int_equal(g.n, 0);
	guess_logits(&g, too_much, 3, 1);
	assert_int_equal(g.n, 0);
	guess_logits(&g, close, 3, 1);
	is_guess(&g, 3, (int32_t[]){ 0, 1, 2 },
		(double[]){ 1 / 3., 1 / 3., 1 / 3. });
	/* The logits are ten groups of five equal values. There is room for 16
	 * of them: three groups and one logit of the fourth. */
	for (int i = 0; i < 50; i++)
		many[i] = (float)(i % 10);
	guess_logits(&g, many, 50, 1);
	assert_int_equal(g.n, TREE_CANDIDATES);
	for (int i = 0; i < TREE_CANDIDATES; i++)
		assert_int_equal(g.c[i].token, 9 - i / 5 + i % 5 * 10);
}

/* ---- order --------------------------------------------------------- */

static void test_order_makes_no_difference(void **state)
{
	const struct growth plain = { 4, 3, CHECK_NODES, 1 };
	struct fixture *f = *state;
	struct tree *first = check_tree(5);

	f->file.type = DTYPE_Q4_0;
	open_drafter(f, DRAFT_INT8, 100, 5);
	check_begin(&f->d, first, f->text, 20);
	check_grow(&f->d, first, &plain);
	for (uint32_t i = 0; i < 6; i++) {
		static const uint32_t batch[] = { 1, 2, 64 };
		struct growth g = { 4, 3, 1 + i * i, 10 + i };

		open_drafter(f, DRAFT_INT8, batch[i % 3], 5);
		check_begin(&f->d, f->t, f->text, 20);
		check_grow(&f->d, f->t, &g);
		check_same_tree(f->t, first);
	}
	tree_close(first);
}

/* Nodes are renumbered, and some are removed, between expansions. */
static void test_nodes_move(void **state)
{
	const struct growth two = { 2, 3, 5, 1 };
	struct fixture *f = *state;
	uint32_t leaf[CHECK_NODES];

	open_drafter(f, DRAFT_F32, 4, 4);
	for (uint64_t i = 0; i < 8; i++) {
		uint32_t n = 0;

		check_begin(&f->d, f->t, f->text, 10 + (i % 2));
		check_grow(&f->d, f->t, &two);
		check_shuffle(f->t, 5, 20 + 2 * i);
		for (uint32_t j = 0; j < f->t->n; j++)
			if (f->t->depth[j] == 2)
				leaf[n++] = j;
		if (n)
			check_expand(&f->d, f->t, leaf, n);
		check_all_nodes(f, 10 + (i % 2), 3, 1);
	}
}

/* ---- the next tree ------------------------------------------------- */

/* Begin with the m tokens of `next`. For `wanted` of these tokens the draft
 * model must compute rows; the rows of the other tokens were computed before.
 * Then compare with a new drafter. */
static void check_next(struct fixture *f, const int32_t *next, size_t m,
	uint64_t wanted, const struct growth *g)
{
	flops(f->draft);
	check_begin(&f->d, f->t, next, m);
	assert_int_equal(computed(f), wanted);
	begin_fresh(f, next, m);
	check_same_tree(f->t, f->u);
	check_grow(&f->d, f->t, g);
	check_grow(&f->fresh, f->u, g);
	check_same_tree(f->t, f->u);
}

/* The next text ends at one of the tree's nodes, for each node in turn, or has
 * one or two further tokens that are not in the tree. */
static void test_every_path(void **state)
{
	enum { N = 17 };
	const struct growth g = { 3, 2, 3, 1 };
	struct fixture *f = *state;
	int32_t next[MOST];
	uint32_t nodes = 1 + 2 + 4 + 8;

	f->file.type = DTYPE_Q8_0;
	open_drafter(f, DRAFT_INT8, 2, 3);
	memcpy(next, f->text, sizeof(next));
	for (uint32_t i = 0; i < nodes; i++) {
		for (uint32_t more = 0; more < 3; more++) {
			uint32_t below, missing = more;

			check_begin(&f->d, f->t, f->text, N);
			check_grow(&f->d, f->t, &g);
			assert_int_equal(f->t->n, nodes);
			below = check_path(f->t, i, next + N);
			/* a node of the last level was not expanded */
			missing += below == g.depth;
			/* Append a token that is no child of the node. */
			for (uint32_t j = 0; j < more; j++)
				next[N + below + j] = 90 + (int32_t)j;
			while (more && tree_child(f->t, i, next[N + below]) > 0)
				next[N + below]--;
			check_next(f, next, N + below + more, missing, &g);
		}
	}
}

/* Each text follows a path of the previous tree or, sometimes, is another
 * text. */
static void test_many_trees(void **state)
{
	struct fixture *f = *state;
	int32_t text[MOST], other[MOST];
	uint32_t n = 11;

	open_drafter(f, DRAFT_F32, 4, 4);
	memcpy(text, f->text, sizeof(text));
	check_tokens(other, MOST, 2, 96);
	check_begin(&f->d, f->t, text, n);
	for (uint64_t i = 0; i < 40; i++) {
		struct growth g = { 1 + (uint32_t)i % 4, 2, 1 + (uint32_t)i % 3,
			i };
		uint32_t node, below;

		check_grow(&f->d, f->t, &g);
		node = check_below(f->t->n, 30, i);
		below = check_path(f->t, node, text + n);
		n += below;
		text[n++] = (int32_t)check_below(96, 31, i);
		if (i % 7 == 3)
			n -= n / 3; /* the next text is shorter */
		if (i % 7 == 5)
			memcpy(text + n / 2, other, n / 2 * sizeof(*text));
		if (n > 200)
			n = 5;
		check_begin(&f->d, f->t, text, n);
		begin_fresh(f, text, n);
		check_same_tree(f->t, f->u);
	}
}

static void test_the_same_text(void **state)
{
	const struct growth g = { 3, 2, 3, 1 };
	struct fixture *f = *state;

	open_drafter(f, DRAFT_F32, 2, 3);
	check_next(f, f->text, 12, 12, &g);
	/* the previous call has expanded the root, so no row is computed */
	check_next(f, f->text, 12, 0, &g);
	/* only the cached prefix is reused; the row of the last token is
	 * computed */
	check_next(f, f->text, 5, 1, &g);
	check_next(f, f->text + 1, 5, 5, &g);
}

/* ---- context limit ------------------------------------------------- */

static void test_context(void **state)
{
	struct fixture *f = *state;
	uint32_t node[] = { 1, 2, 3, 4, 5 };
	struct err e = { 0 };

	f->context = 20;
	open_drafter(f, DRAFT_F32, 2, 5);
	check_begin(&f->d, f->t, f->text, 17);
	check_children(f->t, 0, 5);
	check_expand(&f->d, f->t, node, 5);
	for (uint32_t i = 1; i <= 5; i++)
		assert_int_equal(f->t->n_candidates[i], i <= 3 ? 5 : 0);
	begin_fresh(f, f->text, 17);
	check_children(f->u, 0, 3);
	check_expand(&f->fresh, f->u, node, 3);
	for (uint32_t i = 0; i <= 3; i++)
		check_same_node(f->t, i, f->u, i);

	check_begin(&f->d, f->t, f->text, 20);
	assert_int_equal(f->t->n_candidates[0], 5);
	check_children(f->t, 0, 1);
	f->t->n_candidates[1] = 9;
	check_expand(&f->d, f->t, node, 1);
	assert_int_equal(f->t->n_candidates[1], 0);
	check_begin(&f->d, f->t, f->text, 21);
	assert_int_equal(f->t->n_candidates[0], 0);
	check_begin(&f->d, f->t, f->text, 19);
	begin_fresh(f, f->text, 19);
	check_same_tree(f->t, f->u);

	f->text[3] = 96;
	assert_int_equal(f->d.begin(f->d.arg, f->t, f->text, 9, &e), -EINVAL);
	f->text[3] = 95;
	check_begin(&f->d, f->t, f->text, 9);
	begin_fresh(f, f->text, 9);
	check_same_tree(f->t, f->u);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_candidates_are_the_definition),
	TEST(test_temperature),
	TEST(test_together),
	TEST(test_long_vocabulary),
	TEST(test_odd_logits),
	TEST(test_order_makes_no_difference),
	TEST(test_nodes_move),
	TEST(test_every_path),
	TEST(test_many_trees),
	TEST(test_the_same_text),
	TEST(test_context),
};

TEST_FILE(tests)
