/*
 * The token tree (struct tree) compared with a model that is a list of (parent,
 * token) pairs and computes every count anew.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/tree/tree.h"
#include "tests/harness.h"

#include <string.h>

#define CAPACITY 40
#define K        4
#define ROUNDS   300

struct model_node {
	int32_t token;
	int32_t parent;
	float q;
	/* value stored in the row and candidates of the node, to recognize
	 * them */
	uint32_t mark;
};

struct model {
	uint32_t n;
	struct model_node node[CAPACITY];
};

static uint64_t seed, drawn;

static uint32_t draw(uint32_t below)
{
	return (uint32_t)(rng_uniform(seed, 3, drawn++) * below);
}

static struct tree *open_tree(uint32_t capacity, uint32_t k)
{
	struct err e = { 0 };
	struct tree *t;

	assert_ok(tree_open(&t, capacity, k, &e), &e);
	assert_int_equal(t->capacity, capacity);
	assert_int_equal(t->k, k);
	return t;
}

/* Expand a node as a drafter does: set its row and its candidates. */
static void expand(struct tree *t, uint32_t node, uint32_t mark)
{
	t->row[node] = mark;
	t->n_candidates[node] = 1 + mark % K;
	for (uint32_t i = 0; i < t->n_candidates[node]; i++)
		t->candidate[node * K + i] = (struct candidate){
			.token = (int32_t)(mark * K + i),
		};
}

static void check_expansion(const struct tree *t, uint32_t node, uint32_t mark)
{
	assert_int_equal(t->row[node], mark);
	assert_int_equal(t->n_candidates[node], mark ? 1 + mark % K : 0);
	for (uint32_t i = 0; i < t->n_candidates[node]; i++)
		assert_int_equal(
			t->candidate[node * K + i].token, mark * K + i);
}

static void check(const struct tree *t, const struct model *m)
{
	uint32_t leaves = 0;

	assert_int_equal(t->n, m->n);
	for (uint32_t u = 0; u < m->n; u++) {
		const struct model_node *node = &m->node[u];
		uint32_t children = 0, depth = 0;
		double path = 1;

		for (uint32_t v = 1; v < m->n; v++)
			if (m->node[v].parent == (int32_t)u) {
				children++;
				assert_int_equal(
					tree_child(t, u, m->node[v].token), v);
			}
		for (int32_t v = (int32_t)u; v > 0; v = m->node[v].parent) {
			path *= (double)m->node[v].q;
			depth++;
		}
		assert_int_equal(tree_child(t, u, 1 << 30), -1);
		assert_int_equal(t->n_children[u], children);
		assert_int_equal(t->token[u], node->token);
		assert_int_equal(t->parent[u], node->parent);
		assert_int_equal(t->depth[u], depth);
		assert_true(t->q[u] == node->q);
		if (u)
			assert_int_equal(t->source[u], node->token % 6);
		assert_close(t->path[u], path, 1e-12, "path");
		check_expansion(t, u, node->mark);
		leaves += !children;
	}
	assert_int_equal(t->leaves, leaves);
}

static void add(struct tree *t, struct model *m)
{
	uint32_t parent = draw(m->n);
	struct model_node node = {
		.token = (int32_t)draw(1000),
		.parent = (int32_t)parent,
		.q = (float)draw(1001) / 1000,
		.mark = draw(3) ? 1 + draw(100) : 0,
	};
	const struct candidate c = { node.token, node.q,
		(enum draft_source)(node.token % 6) };

	if (m->n == CAPACITY || tree_child(t, parent, node.token) >= 0)
		return;
	assert_int_equal(tree_add(t, parent, c), m->n);
	check_expansion(t, m->n, 0);
	if (node.mark)
		expand(t, m->n, node.mark);
	m->node[m->n++] = node;
}

/* Keep the first n nodes. */
static void keep_first(struct tree *t, uint32_t n)
{
	uint32_t node[CAPACITY];

	for (uint32_t i = 0; i < n; i++)
		node[i] = i;
	tree_keep(t, node, n);
}

static void cut(struct tree *t, struct model *m)
{
	uint32_t n = 1 + draw(m->n);

	keep_first(t, n);
	m->n = n;
}

/* Keep some nodes in a random order in which parents precede their children. */
static void keep(struct tree *t, struct model *m)
{
	uint32_t order[CAPACITY], n = 1;
	int32_t number[CAPACITY];
	struct model old = *m;

	memset(number, -1, sizeof(number));
	order[0] = 0;
	number[0] = 0;
	for (int tries = 0; tries < 60; tries++) {
		uint32_t u = draw(old.n);
		int32_t parent = u ? number[old.node[u].parent] : -1;

		if (number[u] >= 0 || parent < 0)
			continue;
		order[n] = u;
		number[u] = (int32_t)n;
		m->node[n] = old.node[u];
		m->node[n++].parent = parent;
	}
	m->n = n;
	tree_keep(t, order, n);
}

static void test_against_model(void **state)
{
	struct tree *t = open_tree(CAPACITY, K);
	uint32_t full = 0, kept = 0;

	seed = harness_seed();
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct model m = { .n = 1 };

		m.node[0] = (struct model_node){ 9, -1, 1, 0 };
		tree_reset(t, 9);
		check(t, &m);
		m.node[0].mark = 1 + draw(50);
		expand(t, 0, m.node[0].mark);
		for (uint32_t i = 0; i < 120; i++) {
			if (draw(20))
				add(t, &m);
			else if (draw(2))
				cut(t, &m);
			else
				keep(t, &m);
			kept += m.n;
			full += m.n == CAPACITY;
			check(t, &m);
		}
	}
	assert_true(full > 0);
	assert_true(kept > ROUNDS * 120 * 4);
	tree_close(t);
}

/* The number of leaves is correct after a parent loses its only child and after
 * a parent loses one of two children. */
static void test_cut_by_hand(void **state)
{
	struct tree *t = open_tree(6, 1);

	tree_reset(t, 1);
	assert_int_equal(t->leaves, 1);
	tree_add(t, 0, (struct candidate){ 10, .5F });
	tree_add(t, 0, (struct candidate){ 11, .25F });
	tree_add(t, 1, (struct candidate){ 10, .5F });
	tree_add(t, 1, (struct candidate){ 12, .5F });
	tree_add(t, 2, (struct candidate){ 12, 0 });
	assert_int_equal(t->leaves, 3);
	assert_close(t->path[4], .25, 0, "path");
	assert_close(t->path[5], 0, 0, "path");
	keep_first(t, 4);
	assert_int_equal(t->leaves, 2);
	keep_first(t, 2);
	assert_int_equal(t->leaves, 1);
	assert_int_equal(t->n_children[0], 1);
	assert_int_equal(tree_child(t, 0, 11), -1);
	assert_int_equal(tree_add(t, 0, (struct candidate){ 11, .25F }), 2);
	keep_first(t, 1);
	assert_int_equal(t->n, 1);
	assert_int_equal(t->leaves, 1);
	tree_close(t);
}

static bool is_odd(const void *arg, int32_t token)
{
	++*(unsigned *)(uintptr_t)arg;
	return token % 2;
}

/* Candidates that end the text are moved to the end of the list, keep their
 * order, and are removed with their node. A node that is added again has no
 * such candidates. */
static void test_ends(void **state)
{
	const int32_t want[K] = { 12, 14, 13, 15 };
	const uint32_t keep[] = { 0, 2 };
	struct tree *t = open_tree(4, K);
	unsigned calls = 0;

	tree_reset(t, 1);
	tree_add(t, 0, (struct candidate){ .token = 7, .q = 1 });
	tree_add(t, 0, (struct candidate){ .token = 8, .q = 1 });
	assert_int_equal(tree_expects(t, 2), 0);
	expand(t, 2, 3); /* candidates 12 13 14 15 */
	tree_end(t, 2, is_odd, &calls);
	assert_int_equal(calls, K);
	tree_keep(t, keep, 2);
	assert_int_equal(t->n_candidates[1], 2);
	assert_int_equal(tree_expects(t, 1), K);
	for (uint32_t i = 0; i < K; i++)
		assert_int_equal(t->candidate[K + i].token, want[i]);
	tree_add(t, 1, t->candidate[K]);
	assert_int_equal(tree_expects(t, 2), 0);
	/* The node has only a candidate that ends the text. */
	t->candidate[2 * K].token = 9;
	t->n_candidates[2] = 1;
	tree_end(t, 2, is_odd, &calls);
	assert_int_equal(t->n_candidates[2], 0);
	assert_int_equal(tree_expects(t, 2), 1);
	tree_reset(t, 5);
	assert_int_equal(tree_expects(t, 0), 0);
	tree_close(t);
}

static void test_smallest(void **state)
{
	struct tree *t = open_tree(1, TREE_CANDIDATES);
	const uint32_t root = 0;

	tree_reset(t, 3);
	t->n_candidates[0] = TREE_CANDIDATES;
	tree_keep(t, &root, 1);
	keep_first(t, 1);
	assert_int_equal(t->n, 1);
	assert_int_equal(t->leaves, 1);
	assert_int_equal(t->n_candidates[0], TREE_CANDIDATES);
	tree_close(t);
	tree_close(NULL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_against_model),
	cmocka_unit_test(test_cut_by_hand),
	cmocka_unit_test(test_ends),
	cmocka_unit_test(test_smallest),
};

TEST_FILE(tests)
