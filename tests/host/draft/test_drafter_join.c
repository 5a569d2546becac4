/*
 * Joined drafters. Each node has the pooled candidates of all drafters. If the
 * drafters that run no model are sure (their candidates have a large sum of q),
 * the node has only the candidates of these drafters. This must hold for any
 * order in which nodes are added, removed and renumbered, and for one request
 * or several. Weights must move to the drafters whose tokens are accepted. No
 * drafter is called for a node that it cannot expand. Another test checks how
 * options name the drafters.
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
	unsigned begun[PARTS], shared, saw, closed;
	struct tree *t;
};

/* the fixture, for the callbacks of the joined drafters */
static struct fixture *now;

static int begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	for (unsigned p = 0; p < PARTS; p++)
		now->begun[p] += arg == &now->hash[p];
	assert_int_equal(text[n - 1], 7);
	hash_begin(arg, t);
	return 0;
}

static void saw(void *arg, const int32_t *text, size_t n)
{
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
		f->hash[i] = (struct hash_drafter){ .seed = check_seed() + i,
			.k = K,
			.sharp = 2,
			.source = (enum draft_source)i };
		f->part[i] = hash_drafter(&f->hash[i], 2);
		f->part[i].begin = begin;
		f->part[i].saw = saw;
		f->part[i].close = closed;
	}
	/* The first two drafters often have no candidates. */
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

/* Compare the candidates of a node with those of the drafters, which all have
 * the weight 1. A token's probability is 1 minus the probability that all its
 * drafters are wrong. If the probabilities have a sum above 1, those of all
 * tokens but the likeliest are scaled so that the sum becomes 1. A token's
 * source is the first drafter that has the token. Returns the number of
 * drafters that have candidates. */
static unsigned check_node(const struct fixture *f, uint32_t node)
{
	const struct candidate *got = f->t->candidate + (size_t)node * K;
	double none[HASH_VOCAB], last = 1, rest = 0, left = 1;
	enum draft_source source[HASH_VOCAB];
	uint32_t tokens = 0;
	unsigned parts = 0;

	for (unsigned i = 0; i < HASH_VOCAB; i++)
		none[i] = 1;
	for (unsigned p = 0; p < PARTS; p++) {
		struct candidate own[TREE_CANDIDATES];
		uint32_t n;

		if (!has_candidates(f, p, node, own, &n))
			continue;
		parts++;
		for (uint32_t i = 0; i < n; i++) {
			if (none[own[i].token] == 1) {
				source[own[i].token] = (enum draft_source)p;
				tokens++;
			}
			none[own[i].token] *= 1 - (double)own[i].q;
		}
	}
	assert_int_equal(f->t->n_candidates[node], tokens < K ? tokens : K);
	for (uint32_t i = 1; i < f->t->n_candidates[node]; i++)
		rest += 1 - none[got[i].token];
	for (uint32_t i = 0; i < f->t->n_candidates[node]; i++) {
		double q = 1 - none[got[i].token];

		assert_true(q <= last + 1e-6);
		last = q;
		if (i && rest > left)
			q *= left / rest;
		else if (!i)
			left = 1 - q;
		assert_close(got[i].q, q, 1e-6, "pooled");
		assert_int_equal(got[i].source, source[got[i].token]);
		none[got[i].token] = 2;
	}
	/* Tokens that are no candidates are not likelier than the last
	 * candidate. */
	for (unsigned i = 0; i < HASH_VOCAB && tokens > K; i++)
		assert_true(1 - none[i] <= last + 1e-6);
	return parts;
}

static void test_pooled(void **state)
{
	static const int32_t text[] = { 3, 7 };
	struct fixture *f = *state;
	unsigned with[PARTS + 1] = { 0 };

	for (uint64_t i = 0; i < 60; i++) {
		const struct growth g = { 4, 2, 1 + (uint32_t)i % 4, i };

		for (unsigned p = 0; p < PARTS; p++)
			f->hash[p].seed = check_seed() + PARTS * i + p;
		check_begin(&f->all, f->t, text, 2);
		check_grow(&f->all, f->t, &g);
		for (uint32_t u = 0; u < f->t->n; u++)
			if (f->t->depth[u] < g.depth)
				with[check_node(f, u)]++;
		/* The tree must also grow correctly after nodes were
		 * removed. */
		check_shuffle(f->t, 2, i);
		for (uint32_t u = 0; u < f->t->n; u++)
			if (f->t->depth[u] == g.depth) {
				check_expand(&f->all, f->t, &u, 1);
				with[check_node(f, u)]++;
			}
		f->all.saw(f->all.arg, text, 2);
	}
	assert_int_equal(f->saw, 60 * PARTS);
	for (unsigned p = 1; p <= PARTS; p++)
		assert_true(with[p] > 20);
}

static void searched(void *arg, struct search_work *sum)
{
}

/*
 * The last two drafters run no model and are sure, so the first drafter, which
 * runs a model, is not called. When the last two are no longer sure, the model
 * is called for the node and, in the same call, for all ancestors of the node.
 */
static void test_sure(void **state)
{
	static const int32_t text[] = { 7 };
	const struct growth g = { 3, 1, 1, 1 };
	struct fixture *f = *state;
	struct drafter all;
	struct err e = { 0 };
	uint32_t last;

	f->hash[0].bare = f->hash[1].bare = 0;
	f->hash[1].mass = f->hash[2].mass = 0.99;
	f->part[1].searched = f->part[2].searched = searched;
	assert_ok(drafter_join_open(&all, f->part, PARTS, &e), &e);
	check_begin(&all, f->t, text, 1);
	check_grow(&all, f->t, &g);
	assert_int_equal(f->begun[1] + f->begun[2], 2);
	assert_int_equal(f->begun[0], 0);

	f->hash[1].mass = f->hash[2].mass = 0.1;
	last = f->t->n - 1;
	assert_int_equal(f->t->depth[last], g.depth);
	check_expand(&all, f->t, &last, 1);
	assert_int_equal(f->begun[0], 1);
	assert_int_equal(f->hash[0].calls, 1);
	assert_int_equal(f->hash[0].largest, g.depth);
	drafter_close(&all);
}

/* Store the likeliest token of drafter `part` after the root in *token. Returns
 * the probability that the drafter d gives to this token after the root, or 0
 * if the token is no candidate of d. */
static double root_q(const struct fixture *f, const struct drafter *d,
	unsigned part, int32_t *token)
{
	static const int32_t text[] = { 7 };
	struct candidate c[TREE_CANDIDATES];

	hash_candidates(&f->hash[part], hash_root(&f->hash[part]), c);
	*token = c[0].token;
	check_begin(d, f->t, text, 1);
	for (uint32_t i = 0; i < f->t->n_candidates[0]; i++)
		if (f->t->candidate[i].token == *token)
			return (double)f->t->candidate[i].q;
	return 0;
}

/* Two drafters disagree. First one of them is right each time and gains weight,
 * while the other loses weight; then the other one is right each time. A second
 * join of the same drafters has its own weights. */
static void test_weights(void **state)
{
	struct fixture *f = *state;
	struct drafter two, other;
	struct err e = { 0 };
	double before[2], q[2];
	int32_t text[] = { 7, 0 }, token[2];

	for (unsigned p = 0; p < 2; p++) {
		f->hash[p].bare = 0;
		f->hash[p].mass = 0.45;
	}
	assert_ok(drafter_join_open(&two, f->part, 2, &e), &e);
	assert_ok(drafter_join_open(&other, f->part, 2, &e), &e);
	for (unsigned p = 0; p < 2; p++)
		before[p] = root_q(f, &two, p, &token[p]);
	assert_int_not_equal(token[0], token[1]);
	for (unsigned right = 0; right < 2; right++) {
		for (unsigned i = 0; i < 4000; i++) {
			check_begin(&two, f->t, text, 1);
			text[1] = token[right];
			two.saw(two.arg, text, 2);
		}
		for (unsigned p = 0; p < 2; p++)
			q[p] = root_q(f, &two, p, &token[p]);
		assert_true(q[right] > 1.5 * before[right]);
		assert_true(q[!right] < 0.1 * before[!right]);
		assert_int_equal(f->t->candidate[0].token, token[right]);
	}
	for (unsigned p = 0; p < 2; p++)
		assert_true(root_q(f, &other, p, &token[p]) == before[p]);
	drafter_close(&two);
	drafter_close(&other);
}

/* ---- several requests ---------------------------------------------------- */

#define REQUESTS 3

static int expand_all(const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	int ret = 0;

	now->shared++;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = hash_expand(
			ask[i].arg, ask[i].tree, ask[i].node, ask[i].n, e);
	return ret;
}

static int begin_all(const struct drafter_ask *ask, uint32_t n, struct err *e)
{
	now->shared++;
	for (uint32_t i = 0; i < n; i++)
		hash_begin(ask[i].arg, ask[i].tree);
	return 0;
}

/* The trees of several requests, grown together, equal those grown alone. One
 * call of a joined drafter serves all requests. */
static void test_together(void **state)
{
	static const int32_t text[] = { 7 };
	struct fixture *f = *state;
	struct hash_drafter hash[REQUESTS][2];
	struct drafter part[REQUESTS][2], all[REQUESTS];
	struct drafter_ask ask[REQUESTS];
	struct tree *t[REQUESTS];
	struct err e = { 0 };

	for (unsigned r = 0; r < REQUESTS; r++) {
		for (unsigned p = 0; p < 2; p++) {
			hash[r][p] = (struct hash_drafter){
				.seed = check_seed() + 2 * r + p, .k = K
			};
			part[r][p] = hash_drafter(&hash[r][p], 2);
		}
		part[r][1].begin_all = begin_all;
		part[r][1].expand_all = expand_all;
		part[r][0].begin = part[r][1].begin = begin;
		assert_ok(drafter_join_open(&all[r], part[r], 2, &e), &e);
		t[r] = check_tree(K);
		ask[r] = (struct drafter_ask){ .arg = all[r].arg,
			.tree = t[r],
			.text = text,
			.n_text = 1 };
	}
	assert_ok(all[0].begin_all(ask, REQUESTS, &e), &e);
	for (uint32_t node = 1; node < 4; node++) {
		for (unsigned r = 0; r < REQUESTS; r++) {
			check_children(t[r], node - 1, 1);
			ask[r].node = &node;
			ask[r].n = 1;
		}
		assert_ok(all[0].expand_all(ask, REQUESTS, &e), &e);
	}
	assert_int_equal(f->shared, 4);
	for (unsigned r = 0; r < REQUESTS; r++) {
		check_begin(&all[r], f->t, text, 1);
		check_grow(&all[r], f->t, &(struct growth){ 4, 1, 1, 1 });
		for (uint32_t u = 0; u < 4; u++)
			check_same_node(t[r], u, f->t, u);
		drafter_close(&all[r]);
		tree_close(t[r]);
	}
}

/* ---- errors -------------------------------------------------------------- */

static void test_errors(void **state)
{
	static const int32_t text[] = { 7 };
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t node;

	check_begin(&f->all, f->t, text, 1);
	check_children(f->t, 0, 1);
	f->hash[2].fail = 1;
	node = 1;
	assert_int_equal(f->all.expand(f->all.arg, f->t, &node, 1, &e), -EIO);
	assert_string_equal(e.text, "the draft is gone");
}

/* ---- drafters by name ---------------------------------------------------- */

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
				*oracle = &draft_kind_oracle,
				*sam = &draft_kind_sam;

	check_asked(NULL, false, 2, KINDS(host, sam), SAID("", "sam"));
	check_asked(NULL, true, 2, KINDS(device, sam), SAID("", "sam"));
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
	TEST(test_pooled),
	TEST(test_sure),
	TEST(test_weights),
	TEST(test_together),
	TEST(test_errors),
	cmocka_unit_test(test_words),
	cmocka_unit_test(test_words_refused),
};

TEST_FILE(tests)
