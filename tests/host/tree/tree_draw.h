/*
 * Random numbers for tests of token trees, one after another from a seed. Also
 * opens trees; an error fails the test.
 */
#ifndef TESTS_HOST_TREE_TREE_DRAW_H
#define TESTS_HOST_TREE_TREE_DRAW_H

#include "base/err.h"
#include "base/rng.h"
#include "host/tree/tree.h"
#include "tests/harness.h"

static uint64_t seed, drawn;

static inline double unit(void)
{
	return rng_uniform(seed, 6, drawn++);
}

static inline uint32_t draw(uint32_t below)
{
	return (uint32_t)(unit() * below);
}

static inline struct tree *open_tree(uint32_t capacity, uint32_t k)
{
	struct err e = { 0 };
	struct tree *t;

	assert_ok(tree_open(&t, capacity, k, &e), &e);
	return t;
}

#endif
