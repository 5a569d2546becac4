/*
 * OPT-Tree (Wang et al., TACL 2025): of all trees with n nodes the one with the
 * largest expected accepted length E, which is the sum over its nodes of the
 * product of the draft's probabilities along their paths. Layers are drafted
 * while E grows by more than a threshold delta. Since a node's product is never
 * larger than its parent's, the n largest products always form a tree.
 */
#include "host/method/cycle.h"
#include "host/method/tree_options.h"

/* delta */
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
