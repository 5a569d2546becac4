/*
 * OPT-Tree (Wang et al., TACL 2025): of all trees of so many nodes the one of
 * the largest expected accepted length, by the draft's probabilities.
 */
#include "host/method/cycle.h"
#include "host/method/tree_options.h"

/* Growth of the expected length that is worth one more layer. */
#define THRESHOLD 0.5

static int opt_tree_plan(struct cycle *c, struct err *e)
{
	int ret = cycle_begin(c, tree_depth(c->env), e);

	build_opt_begin(&c->build, c->tree, &c->limits, THRESHOLD);
	return ret ? ret : cycle_grow(c, e);
}

const struct method method_opt_tree = {
	.name = "opt-tree",
	.summary = "the drafted tree with the greatest expected length",
	.lossless = true,
	.needs_draft = true,
	.options = tree_tables,
	.decode_rows = tree_decode_rows,
	.plan = opt_tree_plan,
};
