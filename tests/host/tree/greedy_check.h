/*
 * Common part of the tests of Lever's builder: the costs of cycles (a draft and
 * the pass that verifies it) that the builder gets, and trees that it builds
 * with the drafter of hash_drafter.h.
 */
#ifndef TESTS_HOST_TREE_GREEDY_CHECK_H
#define TESTS_HOST_TREE_GREEDY_CHECK_H

#include "base/err.h"
#include "host/tree/build.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "host/tree/tree_cost.h"
#include "tests/harness.h"
#include "tests/host/tree/build_run.h"
#include "tests/host/tree/hash_drafter.h"
#include "tests/host/tree/tree_draw.h"

#include <math.h>

static struct cost cost;

/* Set random cycle costs: a constant for I/O, a step for each tile of rows, and
 * a cost for each leaf. Sometimes the cost of verification stays unknown. */
static inline void random_cost(uint32_t rows)
{
	double io = draw(3) ? 1000 * unit() : 0, step = 1 + 90 * unit();
	double leaf = draw(2) ? 20 * unit() : 0;
	uint32_t tile = 1 + draw(3) * 7, every = 1 + draw(9);

	cost_init(&cost, 1);
	if (draw(3))
		cost_saw_draft(&cost, 1, 50 * unit());
	if (!draw(8))
		return;
	for (uint32_t n = 1; n <= rows; n += every)
		for (uint32_t l = 1; l <= n && l < 9; l += 1 + draw(4))
			cost_saw_verify(&cost, n, l,
				io + step * ceil((double)n / tile) + leaf * l);
}

static inline void build(struct hash_drafter *h, uint32_t batch, struct tree *t,
	const struct build_limits *l, struct gain_rule *p)
{
	const struct drafter d = hash_drafter(h, batch);
	struct build_limits limits = *l;
	struct build b = { 0 };
	struct err e = { 0 };

	limits.batch = batch;
	hash_begin(h, t);
	build_greedy_begin(&b, t, &limits, &cost, p);
	assert_ok(build_run(&b, &d, &e), &e);
	hash_check_tree(h, t, l->rows, l->depth);
}

#endif
