/*
 * A drafter for tests of token trees. The candidates after a path are a hash of
 * the path, so a test can compute them without a tree. The drafter checks that
 * its caller obeys the contract of host/tree/drafter.h.
 */
#ifndef TESTS_HOST_TREE_HASH_DRAFTER_H
#define TESTS_HOST_TREE_HASH_DRAFTER_H

#include "base/err.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define HASH_VOCAB   64
#define HASH_OUTSIDE HASH_VOCAB /* a token that is never a candidate */
#define HASH_ROWS    4096

struct hash_drafter {
	uint64_t seed;
	uint32_t k;
	double sharp; /* 0: uniform distribution; larger: less uniform */
	/* sum of all candidates' q; 0 means random, from 0.5 to 1 */
	double mass;
	bool coarse; /* true if many candidates have equal q and some have 0 */
	/* one node in `bare` has no candidates; 0 means that all nodes have */
	uint32_t bare;
	enum draft_source source; /* source of all candidates */
	uint32_t room; /* maximum expansions in one tree; 0 means no limit */
	/* number of the call of expand that fails; 0 means none */
	uint32_t fail;
	/* Counts since hash_begin. */
	uint32_t calls, nodes, largest;
	uint64_t path[HASH_ROWS]; /* path of the node that has this row */
};

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static inline double hash_unit(uint64_t a, uint64_t b)
{
	return (double)(hash_mix(a, b) >> 11) * 0x1p-53;
}

static inline uint64_t hash_root(const struct hash_drafter *d)
{
	return hash_mix(d->seed, 0);
}

static inline uint64_t hash_child(uint64_t path, int32_t token)
{
	return hash_mix(path, 1000 + (uint64_t)token);
}

static inline uint64_t hash_node(
	const struct hash_drafter *d, const struct tree *t, uint32_t node)
{
	uint64_t parent;

	if (!node)
		return hash_root(d);
	parent = hash_node(d, t, (uint32_t)t->parent[node]);
	return hash_child(parent, t->token[node]);
}

static inline int hash_order(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->q != y->q)
		return x->q < y->q ? 1 : -1;
	return (x->token > y->token) - (x->token < y->token);
}

/* Write the candidates after a path to `out`. Returns the number of candidates.
 */
static inline uint32_t hash_candidates(
	const struct hash_drafter *d, uint64_t path, struct candidate *out)
{
	uint64_t stride = 2 * (hash_mix(path, 1) % (HASH_VOCAB / 2)) + 1;
	double mass = d->mass > 0 ? d->mass : 0.5 + hash_unit(path, 2) / 2;
	double w[TREE_CANDIDATES], sum = 0;

	if (d->bare && hash_mix(path, 3) % d->bare == 0)
		return 0;
	for (uint32_t i = 0; i < d->k; i++) {
		w[i] = pow(hash_unit(path, 10 + i), d->sharp);
		sum += w[i];
	}
	for (uint32_t i = 0; i < d->k; i++) {
		double q = mass * w[i] / sum;

		out[i].token = (int32_t)((path + i * stride) % HASH_VOCAB);
		out[i].q = (float)(d->coarse ? floor(q * 8) / 8 : q);
		out[i].source = d->source;
	}
	qsort(out, d->k, sizeof(*out), hash_order);
	return d->k;
}

static inline void hash_expand_node(
	struct hash_drafter *d, struct tree *t, uint32_t node)
{
	uint64_t path = hash_node(d, t, node);

	assert_true(node < t->n);
	assert_int_equal(t->n_candidates[node], 0);
	/* The node's ancestors must be expanded and must still have the indices
	 * that the drafter stored in tree.row, also after nodes have moved. */
	for (uint32_t u = node; u;) {
		u = (uint32_t)t->parent[u];
		assert_in_range(t->row[u], 1, d->nodes);
		assert_true(d->path[t->row[u]] == hash_node(d, t, u));
	}
	for (uint32_t i = 1; i <= d->nodes; i++)
		assert_true(d->path[i] != path);
	assert_true(d->nodes + 1 < HASH_ROWS);
	t->row[node] = ++d->nodes;
	d->path[d->nodes] = path;
	t->n_candidates[node] =
		hash_candidates(d, path, &t->candidate[(size_t)node * t->k]);
}

static inline int hash_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct hash_drafter *d = arg;

	assert_true(n >= 1);
	assert_int_equal(t->k, d->k);
	if (++d->calls == d->fail)
		return err_set(e, EIO, "the draft is gone");
	d->largest = n > d->largest ? n : d->largest;
	for (uint32_t i = 0; i < n; i++)
		if (!d->room || d->nodes < d->room)
			hash_expand_node(d, t, node[i]);
	return 0;
}

static inline void hash_begin(struct hash_drafter *d, struct tree *t)
{
	d->calls = d->nodes = d->largest = 0;
	tree_reset(t, 7);
	hash_expand_node(d, t, 0);
}

static inline struct drafter hash_drafter(
	struct hash_drafter *d, uint32_t batch)
{
	return (struct drafter){
		.arg = d, .expand = hash_expand, .batch = batch
	};
}

/* Check all invariants of a tree. All counts are computed again from its
 * nodes. */
static inline void hash_check_tree(const struct hash_drafter *d,
	const struct tree *t, uint32_t rows, uint32_t depth)
{
	uint32_t leaves = 0;

	assert_in_range(t->n, 1, rows);
	for (uint32_t u = 0; u < t->n; u++) {
		uint64_t path = hash_node(d, t, u);
		struct candidate c[TREE_CANDIDATES];
		uint32_t n = hash_candidates(d, path, c), children = 0;

		for (uint32_t v = u + 1; v < t->n; v++) {
			if (t->parent[v] != (int32_t)u)
				continue;
			/* Children must be in the order of candidates. */
			assert_true(children < n);
			assert_int_equal(t->token[v], c[children].token);
			assert_true(t->q[v] == c[children].q);
			assert_close(t->path[v], t->path[u] * (double)t->q[v],
				0, "path");
			assert_int_equal(t->depth[v], t->depth[u] + 1);
			children++;
		}
		assert_int_equal(t->n_children[u], children);
		assert_true(u == 0 || t->parent[u] < (int32_t)u);
		assert_in_range(t->depth[u], 0, depth);
		leaves += !children;
		if (t->n_candidates[u])
			assert_true(d->path[t->row[u]] == path);
	}
	assert_int_equal(t->leaves, leaves);
}

#endif
