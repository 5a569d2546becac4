#include "host/scheduler/tree_options.h"

#include "base/checked.h"
#include "host/scheduler/method.h"
#include "host/tree/tree.h"

/* clang-format off */
#define IN(field) OPT_IN(tree_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "tree-rows", IN(rows), "N",
		"largest number of nodes of a drafted tree, including the "
		"root; each node is a row of a pass (8 on the wall clock with "
		"all layers in memory, else 64; lever: 64, with streamed "
		"layers 256); with -N, of all trees together",
		2, TREE_ROWS_MOST },
	{ OPT_UINT, 0, "tree-depth", IN(depth), "N",
		"largest number of levels of a drafted tree (12; lever: 32)",
		1, TREE_ROWS_MOST },
	{ OPT_UINT, 0, "candidates", IN(candidates), "N",
		"number of likely next tokens that are tried as children of "
		"each node of a drafted tree ({})",
		1, TREE_CANDIDATES },
};
/* clang-format on */

const struct opt_table tree_table = {
	.heading = "trees",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct tree_options){ .candidates = 8 },
	.size = sizeof(struct tree_options),
};

const struct opt_table *const tree_tables[] = { &tree_table, NULL };

uint32_t tree_decode_rows(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);

	if (o->rows)
		return o->rows;
	return env->streams || env->phone ? TREE_ROWS : TREE_ROWS_CPU;
}

uint32_t tree_depth(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);

	return o->depth ? o->depth : TREE_DEPTH;
}

uint32_t tree_decode_rows_weighed(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);

	if (o->rows)
		return o->rows;
	return env->streams ? TREE_ROWS_STREAMED : TREE_ROWS;
}

uint32_t tree_depth_weighed(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);

	return o->depth ? o->depth : TREE_DEPTH_WEIGHED;
}
