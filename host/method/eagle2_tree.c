/*
 * EAGLE-2's dynamic tree (Li et al., EMNLP 2024), over an ordinary draft model:
 * layer by layer the likeliest nodes are expanded together, and of all their
 * candidates the best are verified.
 */
#include "host/method/cycle.h"
#include "host/method/tree_options.h"
#include "host/text/generation.h"

#define DEPTH 8 /* a first layer, and the reference's 7 */
#define BEAM  10

static int eagle2_tree_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct cycle c;
	int ret = cycle_open(&c, s, g, env, tree_decode_rows(env),
		1 + BEAM * (DEPTH - 1), e);

	while (!ret && !gen_done(g)) {
		ret = cycle_begin(&c, DEPTH, e);
		if (!ret)
			ret = build_eagle2(
				c.tree, &c.drafter, &c.limits, BEAM, e);
		if (!ret)
			ret = cycle_verify(&c, NULL, e);
	}
	cycle_close(&c);
	return ret;
}

const struct method method_eagle2_tree = {
	.name = "eagle2-tree",
	.summary = "EAGLE-2's dynamic tree, drafted by an ordinary model",
	.lossless = true,
	.needs_draft = true,
	.options = tree_tables,
	.decode_rows = tree_decode_rows,
	.run = eagle2_tree_run,
};
