/*
 * SpecInfer (Miao et al., ASPLOS 2024): a token tree of a fixed shape <k1, ...,
 * km>, in which each node of depth i - 1 has ki children. With the widths
 * below, only the node of depth 2 has more than one child. The target verifies
 * all paths in one pass.
 */
#include "base/checked.h"
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/tree_options.h"

/* the widths k1 .. km of the authors' code, which give 20 nodes below the
 * root */
static const uint32_t width[] = { 1, 1, 3, 1, 1, 1, 1, 1 };

#define NODES 20

static uint32_t specinfer_rows(const struct method_env *env)
{
	uint32_t most = tree_decode_rows(env);

	return most < 1 + NODES ? most : 1 + NODES;
}

static void specinfer_plan(struct cycle *c)
{
	build_specinfer_begin(&c->build, c->tree,
		cycle_limits(c, ARRAY_LEN(width)), width, ARRAY_LEN(width));
}

const struct method method_specinfer = {
	.name = "specinfer",
	.summary = "a drafted tree of fixed shape, verified in one pass",
	.lossless = true,
	.needs_draft = true,
	.options = tree_tables,
	.decode_rows = specinfer_rows,
	.plan = specinfer_plan,
};
