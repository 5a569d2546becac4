/*
 * EAGLE-2's dynamic tree (Li et al., EMNLP 2024) with an ordinary draft model.
 * The score of a node is the product of the draft's probabilities along its
 * path. In each layer of the tree, the k nodes with the best scores are
 * expanded together, with k candidates each. At the end the best `rows` - 1
 * candidates of all layers of the tree are verified.
 *
 * The authors' code verifies 60 rows, drafts a first layer of the tree and 5
 * more layers, and has k = 10. The defaults are the same, with two exceptions.
 * If layers of the target are streamed from flash, a pass waits for flash, so
 * there is time for more rows, and the numbers of rows and of tree layers
 * default to the values of the other methods. Without a simulated phone, only
 * the number of rows has another default: the value of the other methods.
 */
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/tree_options.h"

#define ROWS  60
#define DEPTH 6

struct eagle2_options {
	uint32_t top_k;
};

static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "eagle2-top-k", OPT_IN(eagle2_options, top_k), "N",
		"method eagle2-tree: number of nodes expanded in each level of "
		"the drafted tree, and of children of each expanded node ({})",
		1, TREE_CANDIDATES },
};

static const struct opt_table table =
	OPT_TABLE_INIT("trees", option_rows, eagle2_options, .top_k = 10);

static const struct opt_table *const options[] = { &tree_table, &table, NULL };

static uint32_t rows_of(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);

	if (o->rows || env->streams || !env->phone)
		return tree_decode_rows(env);
	return ROWS;
}

static uint32_t depth_of(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);

	return o->depth || env->streams ? tree_depth(env) : DEPTH;
}

static uint32_t top_k(const struct method_env *env)
{
	const struct eagle2_options *o = method_options(env, &table);

	return o->top_k;
}

/* Number of nodes for which the tree needs room in addition to its rows: the
 * tree holds the candidates of all its layers, but only the best candidates
 * become rows. */
static uint32_t spare_nodes(const struct method_env *env)
{
	return 1 + top_k(env) * (depth_of(env) - 1);
}

static void eagle2_tree_plan(struct cycle *c)
{
	build_eagle2_begin(&c->build, c->tree,
		cycle_limits(c, depth_of(c->env)), top_k(c->env));
}

const struct method method_eagle2_tree = {
	.name = "eagle2-tree",
	.summary = "EAGLE-2's dynamic tree, with an ordinary draft model",
	.lossless = true,
	.needs_draft = true,
	.options = options,
	.decode_rows = rows_of,
	.candidates = top_k,
	.spare_nodes = spare_nodes,
	.plan = eagle2_tree_plan,
};
