/*
 * Common part of the tests of drafters. A drafter expands a node of a tree: it
 * sets the node's candidates, the tokens that may follow the node. Trees are
 * grown in many orders and compared by the paths of their nodes, because nodes
 * with the same path have different numbers.
 */
#ifndef TESTS_HOST_DRAFT_DRAFTER_CHECK_H
#define TESTS_HOST_DRAFT_DRAFTER_CHECK_H

#include "base/err.h"
#include "base/rng.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"

#include <stdbool.h>
#include <string.h>

#define CHECK_NODES 200

/* Defines a tree: every node above depth `depth` gets its `width` likeliest
 * children. Up to `group` nodes are expanded at once, in an order that depends
 * on `stream`. */
struct growth {
	uint32_t depth, width, group;
	uint64_t stream;
};

static inline uint64_t check_seed(void)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t value;

	return value ? value : (value = harness_seed());
}

static inline uint32_t check_below(uint32_t n, uint64_t stream, uint64_t i)
{
	return (uint32_t)(rng_uniform(check_seed() + 5, stream, i) * n);
}

static inline void check_tokens(
	int32_t *t, uint32_t n, uint64_t stream, uint32_t n_vocab)
{
	for (uint32_t i = 0; i < n; i++)
		t[i] = (int32_t)check_below(n_vocab, stream, i);
}

static inline struct tree *check_tree(uint32_t k)
{
	struct tree *t;
	struct err e = { 0 };

	assert_ok(tree_open(&t, CHECK_NODES, k, &e), &e);
	return t;
}

static inline void check_begin(
	const struct drafter *d, struct tree *t, const int32_t *text, size_t n)
{
	struct err e = { 0 };

	assert_ok(d->begin(d->arg, t, text, n, &e), &e);
	assert_int_equal(t->n, 1);
	assert_int_equal(t->token[0], text[n - 1]);
}

static inline void check_children(struct tree *t, uint32_t node, uint32_t width)
{
	const struct candidate *c = t->candidate + (size_t)node * t->k;

	for (uint32_t i = 0; i < width && i < t->n_candidates[node]; i++)
		tree_add(t, node, c[i]);
}

static inline void check_expand(const struct drafter *d, struct tree *t,
	const uint32_t *node, uint32_t n)
{
	struct err e = { 0 };

	assert_ok(d->expand(d->arg, t, node, n, &e), &e);
}

/* Grow a tree after begin(), when only its root is expanded. */
static inline void check_grow(
	const struct drafter *d, struct tree *t, const struct growth *g)
{
	uint32_t open[CHECK_NODES], n = 0, some, done = t->n - 1;

	check_children(t, 0, g->width);
	for (uint64_t round = 0;; round++) {
		for (; ++done < t->n;)
			if (t->depth[done] < g->depth)
				open[n++] = done;
		done--;
		if (!n)
			return;
		for (uint32_t i = n; i > 1; i--) {
			uint32_t j = check_below(i, g->stream, round * 999 + i);
			uint32_t swap = open[i - 1];

			open[i - 1] = open[j];
			open[j] = swap;
		}
		some = n < g->group ? n : g->group;
		n -= some;
		check_expand(d, t, open + n, some);
		for (uint32_t i = 0; i < some; i++)
			check_children(t, open[n + i], g->width);
	}
}

static inline void check_same_node(
	const struct tree *a, uint32_t i, const struct tree *b, uint32_t j)
{
	assert_int_equal(a->n_candidates[i], b->n_candidates[j]);
	for (uint32_t c = 0; c < a->n_candidates[i]; c++) {
		const struct candidate *x = &a->candidate[i * a->k + c];
		const struct candidate *y = &b->candidate[j * b->k + c];

		if (x->token != y->token ||
			memcmp(&x->q, &y->q, sizeof(x->q)) != 0)
			fail_msg("candidate %u of node %u at depth %u is %d "
				 "of %.9g, not %d of %.9g",
				c, i, a->depth[i], x->token, (double)x->q,
				y->token, (double)y->q);
	}
}

/* Both trees must have the same paths with the same candidates, bit for bit. */
static inline void check_same_tree(const struct tree *a, const struct tree *b)
{
	int32_t other[CHECK_NODES] = { 0 };

	assert_int_equal(a->n, b->n);
	check_same_node(a, 0, b, 0);
	for (uint32_t i = 1; i < a->n; i++) {
		other[i] = tree_child(
			b, (uint32_t)other[a->parent[i]], a->token[i]);
		assert_true(other[i] > 0);
		check_same_node(a, i, b, (uint32_t)other[i]);
	}
}

/* Renumber the nodes at random. On average one node in `drop` is removed, with
 * all its descendants. */
static inline void check_shuffle(struct tree *t, uint32_t drop, uint64_t stream)
{
	bool kept[CHECK_NODES] = { true }, seen[CHECK_NODES] = { true };
	uint32_t node[CHECK_NODES] = { 0 }, n = 1, left = t->n - 1;

	for (uint64_t i = 0; left; i++) {
		uint32_t at = check_below(t->n, stream, i);

		if (seen[at] || !seen[t->parent[at]])
			continue;
		seen[at] = true;
		left--;
		kept[at] =
			kept[t->parent[at]] && check_below(drop, stream + 1, i);
		if (kept[at])
			node[n++] = at;
	}
	tree_keep(t, node, n);
}

/* Write the tokens of the path from the root to `node`. Returns the number of
 * tokens. */
static inline uint32_t check_path(
	const struct tree *t, uint32_t node, int32_t *token)
{
	for (uint32_t i = node; i; i = (uint32_t)t->parent[i])
		token[t->depth[i] - 1] = t->token[i];
	return t->depth[node];
}

#endif
