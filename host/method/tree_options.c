#include "host/method/tree_options.h"

#include "base/checked.h"
#include "host/method/method.h"
#include "host/tree/tree.h"
#include "host/tree/tree_cost.h"

/* clang-format off */
#define IN(field) OPT_IN(tree_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "tree-rows", IN(rows), "N",
		"rows of a drafted tree at most, its root among them; of many "
		"samples those of all their trees together ({})",
		2, COST_ROWS },
	{ OPT_UINT, 0, "tree-depth", IN(depth), "N",
		"depth of a drafted tree at most ({})", 1, COST_ROWS },
	{ OPT_UINT, 0, "candidates", IN(candidates), "N",
		"tokens considered behind each node of a tree ({})",
		1, TREE_CANDIDATES },
};
/* clang-format on */

const struct opt_table tree_table = {
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults =
		&(const struct tree_options){
			.rows = 64, .depth = 12, .candidates = 8 },
	.size = sizeof(struct tree_options),
};

const struct opt_table *const tree_tables[] = { &tree_table, NULL };

const struct tree_options *tree_options(const struct method_env *env)
{
	return method_options(env, &tree_table);
}

uint32_t tree_decode_rows(const struct method_env *env)
{
	return tree_options(env)->rows;
}
