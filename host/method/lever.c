/*
 * Lever: a target on flash, verified by streaming. A pass costs the same read
 * whatever it verifies, so the tree is grown by gain over cost: what a token
 * adds to the expected length, by the draft's probabilities and how far these
 * could be relied on lately, over what it adds to the time of drafting and
 * verifying (section 4.2). In the middle of the target an exit predictor
 * drops rows that have little chance (4.3), and logits are computed for the
 * rows on the accepted way alone (4.4).
 */
#include "host/generation.h"
#include "host/method/cycle.h"
#include "host/tree/tree_cost.h"

/* The first trees are of several sizes, so that the profile knows their cost;
 * the paper profiles in advance. */
#define FIRST_SIZES 3

static uint32_t lever_rows(const struct method_env *env)
{
	return env->tree_rows;
}

static void try_sizes(struct cycle *c)
{
	uint64_t cycles = c->env->stats.cycles;
	uint32_t rows = c->rows;

	if (cycles < FIRST_SIZES)
		rows >>= FIRST_SIZES - cycles;
	if (rows > 1 && rows < c->limits.rows)
		c->limits.rows = rows;
}

static int lever_cycle(struct cycle *c, struct err *e)
{
	struct method_env *env = c->env;
	struct cycle_pass pass = { .prune = env->exit };
	int ret = cycle_begin(c, env->tree_depth, e);

	try_sizes(c);
	if (!ret)
		ret = build_lever(c->tree, &c->drafter, &c->limits, env->cost,
			&env->lever, e);
	if (ret)
		return ret;
	env->stats.gain += env->lever.gain;
	ret = cycle_verify(c, &pass, e);
	if (ret)
		return ret;
	if (c->expanded)
		cost_saw_draft(env->cost, c->expanded, cycle_draft_cost(c));
	cost_saw_verify(
		env->cost, c->verified, c->leaves, (double)c->verify_time);
	lever_saw(&env->lever, c->tree, c->path + 1, c->n_path - 1, c->next);
	return 0;
}

static int lever_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct cycle c;
	/* Room for what a batch drafts ahead of the tree. */
	uint32_t spare = env->drafter->batch > 1 ? lever_rows(env) : 0;
	int ret = cycle_open(&c, s, g, env, lever_rows(env), spare, e);

	env->lever.best_prefix = !env->stop_rule;
	while (!ret && !gen_done(g))
		ret = lever_cycle(&c, e);
	cycle_close(&c);
	return ret;
}

const struct method method_lever = {
	.name = "lever",
	.summary = "a drafted tree grown by gain over cost, pruned half-way",
	.lossless = true,
	.needs_draft = true,
	.prunes = true,
	.decode_rows = lever_rows,
	.run = lever_run,
};
