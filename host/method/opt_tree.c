/*
 * OPT-Tree (Wang et al., TACL 2025): of all trees of so many nodes the one of
 * the largest expected accepted length, by the draft's probabilities.
 */
#include "host/method/cycle.h"
#include "host/method/tree_options.h"

/* Growth of the expected length that is worth one more layer. */
#define THRESHOLD 0.5

static void opt_tree_plan(struct cycle *c)
{
	build_opt_begin(&c->build, c->tree, cycle_limits(c, tree_depth(c->env)),
		THRESHOLD);
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
