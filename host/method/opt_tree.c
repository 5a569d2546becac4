/*
 * OPT-Tree (Wang et al., TACL 2025): of all trees of so many nodes the one of
 * the largest expected accepted length, by the draft's probabilities.
 */
#include "host/method/cycle.h"
#include "host/method/tree_options.h"
#include "host/text/generation.h"

#define THRESHOLD                                                  \
	0.5 /* growth of the expected length that is worth a layer \
	     */

static int opt_tree_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct cycle c;
	int ret = cycle_open(&c, s, g, env, tree_decode_rows(env), 0, e);

	while (!ret && !gen_done(g)) {
		ret = cycle_begin(&c, tree_depth(env), e);
		if (!ret)
			ret = build_opt(
				c.tree, &c.drafter, &c.limits, THRESHOLD, e);
		if (!ret)
			ret = cycle_verify(&c, NULL, e);
	}
	cycle_close(&c);
	return ret;
}

const struct method method_opt_tree = {
	.name = "opt-tree",
	.summary = "the drafted tree with the greatest expected length",
	.lossless = true,
	.needs_draft = true,
	.options = tree_tables,
	.decode_rows = tree_decode_rows,
	.run = opt_tree_run,
};
