/*
 * The method that pruning is measured with. Lever's trees depend on what
 * verifying took so far, and pruning changes that; to compare the same trees,
 * costs and reliability stay as a run without pruning has left them. Then a
 * tree depends on the text it begins behind alone.
 */
#include "host/bench/bench_lever.h"
#include "host/method/cycle.h"
#include "host/text/generation.h"

static uint32_t frozen_rows(const struct method_env *env)
{
	return env->tree_rows;
}

static int frozen_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct cycle_pass pass = { .prune = env->exit };
	struct cycle c;
	int ret = cycle_open(&c, s, g, env, frozen_rows(env), 0, e);

	env->lever.best_prefix = !env->stop_rule;
	while (!ret && !gen_done(g)) {
		ret = cycle_begin(&c, env->tree_depth, e);
		if (!ret)
			ret = build_lever(c.tree, &c.drafter, &c.limits,
				env->cost, &env->lever, e);
		if (!ret)
			ret = cycle_verify(&c, &pass, e);
	}
	cycle_close(&c);
	return ret;
}

const struct method bench_frozen_lever = {
	.name = "lever",
	.summary = "lever with costs that do not move",
	.lossless = true,
	.needs_draft = true,
	.prunes = true,
	.decode_rows = frozen_rows,
	.run = frozen_run,
};
