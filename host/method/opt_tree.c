/*
 * OPT-Tree (Wang et al., TACL 2025): of all trees with n nodes, use the one
 * with the largest expected accepted length E. The probability of a node is the
 * product of the draft's probabilities along the node's path; E is the sum of
 * the probabilities of all nodes. Layers of the tree are drafted while each new
 * layer increases E by more than a threshold delta. A node's probability is
 * never larger than its parent's, so the n nodes with the largest probabilities
 * always form a tree.
 */
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/tree_options.h"

/* the threshold delta */
#define THRESHOLD 0.5

static void opt_tree_plan(struct cycle *c)
{
	build_opt_begin(&c->build, c->tree, cycle_limits(c, tree_depth(c->env)),
		THRESHOLD);
}

const struct method method_opt_tree = {
	.name = "opt-tree",
	.summary = "the drafted tree with the most expected accepted tokens",
	.lossless = true,
	.needs_draft = true,
	.options = tree_tables,
	.decode_rows = tree_decode_rows,
	.plan = opt_tree_plan,
};
