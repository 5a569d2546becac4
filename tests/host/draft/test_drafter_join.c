/*
 * Joined drafters. Each node has the candidates of the first drafter that is
 * sure or, if no drafter is sure, the best candidates of all. This must hold
 * for any order in which trees grow, are cut and renumbered. No drafter is
 * called for a node that it cannot expand. Another test checks how options name
 * the drafters.
 */
#include "base/err.h"
#include "host/draft/drafter_join.h"
#include "host/draft/drafting.h"
#include "tests/harness.h"
#include "tests/host/draft/drafter_check.h"
#include "tests/host/tree/hash_drafter.h"

#include <errno.h>

#define PARTS 3
#define K     4

struct fixture {
	struct hash_drafter hash[PARTS];
	struct drafter part[PARTS], all;
	unsigned begun[PARTS], saw, closed;
	struct tree *t;
};

/* the fixture, for the callbacks of the joined drafters */
static struct fixture *now;

static unsigned index_of(const void *arg)
{
	return (unsigned)((const struct hash_drafter *)arg - now->hash);
}

static int begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	now->begun[index_of(arg)]++;
	assert_int_equal(text[n - 1], 7);
	hash_begin(arg, t);
	return 0;
}

static void saw(void *arg, const int32_t *text, size_t n)
{
	assert_int_equal(n, 2);
	now->saw++;
}

static void closed(void *arg)
{
	now->closed++;
}

static int setup(void **state)
{
	struct fixture *f = now = calloc(1, sizeof(*f));
	struct err e = { 0 };

	for (unsigned i = 0; i < PARTS; i++) {
		f->hash[i] = (struct hash_drafter){
			.seed = check_seed() + i, .k = K, .sharp = 2
		};
		f->part[i] = hash_drafter(&f->hash[i], 2);
		f->part[i].begin = begin;
		f->part[i].saw = saw;
		f->part[i].close = closed;
	}
	/* The first two drafters often find nothing; the last one always finds
	 * candidates. */
	f->hash[0].bare = 2;
	f->hash[1].bare = 3;
	f->t = check_tree(K);
	assert_ok(drafter_join_open(&f->all, f->part, PARTS, &e), &e);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	drafter_close(&f->all);
	/* the join borrows the drafters, so it does not close them */
	assert_int_equal(f->closed, 0);
	tree_close(f->t);
	free(f);
	return 0;
}

/* Whether drafter `part` has candidates for all nodes on the path to `node`,
 * even if another drafter's candidates were used there. Stores the drafter's
 * own candidates for the node. */
static bool has_candidates(const struct fixture *f, unsigned part,
	uint32_t node, struct candidate *c, uint32_t *n)
{
	const struct hash_drafter *h = &f->hash[part];
	uint32_t above = (uint32_t)f->t->parent[node];

	if (node && !has_candidates(f, part, above, c, n))
		return false;
	*n = hash_candidates(h, hash_node(h, f->t, node), c);
	return *n;
}

static unsigned check_node(const struct fixture *f, uint32_t node)
{
	const struct candidate *got = f->t->candidate + (size_t)node * K;
	struct candidate want[TREE_CANDIDATES];
	uint32_t n = 0;
	unsigned part = 0;

	while (part < PARTS && !has_candidates(f, part, node, want, &n))
		part++;
	assert_true(part < PARTS);
	assert_int_equal(f->t->n_candidates[node], n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(got[i].token, want[i].token);
		assert_true(got[i].q == want[i].q);
	}
	return part;
}

static void test_first_that_is_sure(void **state)
{
	static const int32_t text[] = { 3, 7 };
	struct fixture *f = *state;
	unsigned answers[PARTS] = { 0 };

	for (uint64_t i = 0; i < 60; i++) {
		const struct growth g = { 4, 2, 1 + (uint32_t)i % 4, i };

		for (unsigned p = 0; p < PARTS; p++)
			f->hash[p].seed = check_seed() + PARTS * i + p;
		check_begin(&f->all, f->t, text, 2);
		check_grow(&f->all, f->t, &g);
		for (uint32_t u = 0; u < f->t->n; u++)
			if (f->t->depth[u] < g.depth)
				answers[check_node(f, u)]++;
		/* The tree must also grow correctly after nodes were
		 * removed. */
		check_shuffle(f->t, 2, i);
		for (uint32_t u = 0; u < f->t->n; u++)
			if (f->t->depth[u] == g.depth) {
				check_expand(&f->all, f->t, &u, 1);
				answers[check_node(f, u)]++;
			}
		f->all.saw(f->all.arg, text, 2);
	}
	assert_int_equal(f->saw, 60 * PARTS);
	for (unsigned p = 0; p < PARTS; p++)
		assert_true(answers[p] > 20);
}

/* Sum of the K largest entries of q [HASH_OUTSIDE], which has for each token
 * the best probability that any called drafter gives it. Stores these tokens in
 * `best` and their number in *n. */
static double sum_of_best(const double *q, struct candidate *best, uint32_t *n)
{
	double sum = 0;

	for (*n = 0; *n < K; (*n)++) {
		int32_t most = -1;

		for (int32_t t = 0; t < HASH_VOCAB; t++) {
			bool taken = false;

			for (uint32_t i = 0; i < *n; i++)
				taken |= best[i].token == t;
			if (!taken && q[t] >= 0 && (most < 0 || q[t] > q[most]))
				most = t;
		}
		if (most < 0)
			break;
		best[*n] = (struct candidate){ most, (float)q[most] };
		sum += q[most];
	}
	return sum;
}

static unsigned check_union(const struct fixture *f, uint32_t node)
{
	const struct candidate *got = f->t->candidate + (size_t)node * K;
	struct candidate own[TREE_CANDIDATES], want[K];
	double q[HASH_VOCAB], sum = 0;
	uint32_t n = 0, n_own;
	unsigned part;

	for (unsigned i = 0; i < HASH_VOCAB; i++)
		q[i] = -1;
	for (part = 0; part < PARTS && sum < 0.5; part++) {
		n_own = hash_candidates(&f->hash[part],
			hash_node(&f->hash[part], f->t, node), own);
		for (uint32_t i = 0; i < n_own; i++)
			if ((double)own[i].q > q[own[i].token])
				q[own[i].token] = (double)own[i].q;
		sum = sum_of_best(q, want, &n);
	}
	assert_int_equal(f->t->n_candidates[node], n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(got[i].token, want[i].token);
		assert_true(got[i].q == want[i].q);
	}
	return part;
}

/* No drafter is sure alone, so a node has the best candidates of all drafters
 * that were called. */
static void test_together(void **state)
{
	static const int32_t text[] = { 3, 7 };
	struct fixture *f = *state;
	unsigned asked[PARTS + 1] = { 0 };

	for (uint64_t i = 0; i < 60; i++) {
		const struct growth g = { 4, 2, 1 + (uint32_t)i % 4, i };

		for (unsigned p = 0; p < PARTS; p++) {
			f->hash[p].seed = check_seed() + PARTS * i + p;
			f->hash[p].mass = 0.15 + 0.05 * (double)(i % 5);
			f->hash[p].bare = 0;
		}
		check_begin(&f->all, f->t, text, 2);
		check_grow(&f->all, f->t, &g);
		for (uint32_t u = 0; u < f->t->n; u++)
			if (f->t->depth[u] < g.depth)
				asked[check_union(f, u)]++;
	}
	assert_true(asked[2] > 20 && asked[3] > 20);
}

/* If the first drafter is sure, the other drafters are not called. */
static void test_only_those_needed(void **state)
{
	static const int32_t text[] = { 7 };
	const struct growth g = { 3, 2, 2, 1 };
	struct fixture *f = *state;

	f->hash[0].bare = 0;
	check_begin(&f->all, f->t, text, 1);
	check_grow(&f->all, f->t, &g);
	assert_int_equal(f->begun[0], 1);
	assert_int_equal(f->begun[1] + f->begun[2], 0);
}

static void test_errors(void **state)
{
	static const int32_t text[] = { 7 };
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t node;

	f->hash[0].bare = 0;
	check_begin(&f->all, f->t, text, 1);
	check_children(f->t, 0, 1);
	f->hash[0].fail = 1;
	node = 1;
	assert_int_equal(f->all.expand(f->all.arg, f->t, &node, 1, &e), -EIO);
	assert_string_equal(e.text, "the draft is gone");
}

/* ---- requests by name ---------------------------------------------------- */

static void check_asked(const char *draft, bool on_device, unsigned n,
	const struct draft_kind *const *kind, const char *const *said)
{
	struct opt_values o = { 0 };
	struct drafting_options *asked = opt_values_at(&o, &drafting_table);
	static struct drafting d;
	struct err e = { 0 };

	asked->draft = draft;
	asked->on_device = on_device;
	d = (struct drafting){ 0 };
	assert_ok(drafting_ask(&d, &o, &e), &e);
	assert_int_equal(d.n, n);
	for (unsigned i = 0; i < n; i++) {
		assert_ptr_equal(d.part[i].kind, kind[i]);
		assert_string_equal(d.part[i].word, said[i]);
	}
}

#define KINDS(...)                         \
	(const struct draft_kind *const[]) \
	{                                  \
		__VA_ARGS__                \
	}
#define SAID(...)             \
	(const char *const[]) \
	{                     \
		__VA_ARGS__   \
	}

static void test_words(void **state)
{
	const struct draft_kind *host = &draft_kind_host,
				*device = &draft_kind_device,
				*oracle = &draft_kind_oracle;

	check_asked(NULL, false, 1, KINDS(host), SAID(""));
	check_asked(NULL, true, 1, KINDS(device), SAID(""));
	check_asked("model", false, 1, KINDS(host), SAID(""));
	check_asked("oracle:1+model", true, 2, KINDS(oracle, device),
		SAID("oracle:1", ""));
	check_asked("model+oracle:1", false, 2, KINDS(host, oracle),
		SAID("", "oracle:1"));
	check_asked("a.gguf", false, 1, KINDS(host), SAID("a.gguf"));
	check_asked("c++/a+.gguf", false, 1, KINDS(host), SAID("c++/a+.gguf"));
	check_asked("oracle", false, 1, KINDS(host), SAID("oracle"));
	check_asked("oracle:0.5", true, 1, KINDS(oracle), SAID("oracle:0.5"));
	check_asked("oracle:0.5,1+model", false, 2, KINDS(oracle, host),
		SAID("oracle:0.5,1", ""));
	check_asked("oracle:1+a+b", true, 2, KINDS(oracle, device),
		SAID("oracle:1", "a+b"));
	check_asked("c++/a+oracle:0.5+oracle:0.25", false, 3,
		KINDS(host, oracle, oracle),
		SAID("c++/a", "oracle:0.5", "oracle:0.25"));
}

static void check_refused(const char *draft, const char *what)
{
	struct opt_values o = { 0 };
	struct drafting_options *asked = opt_values_at(&o, &drafting_table);
	static struct drafting d;
	struct err e = { 0 };

	asked->draft = draft;
	d = (struct drafting){ 0 };
	assert_int_equal(drafting_ask(&d, &o, &e), -EINVAL);
	if (!strstr(e.text, what))
		fail_msg("no '%s' in: %s", what, e.text);
}

static void test_words_refused(void **state)
{
	check_refused("oracle:", "oracle: number 1, '', is not");
	check_refused("oracle:2", "number 1, '2', is not");
	check_refused("a+oracle:-1", "number 1, '-1', is not");
	check_refused("oracle:1+oracle:1+oracle:1+oracle:1+oracle:1+oracle:1+a",
		"more than 6 drafters");
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_first_that_is_sure),
	TEST(test_together),
	TEST(test_only_those_needed),
	TEST(test_errors),
	cmocka_unit_test(test_words),
	cmocka_unit_test(test_words_refused),
};

TEST_FILE(tests)
