/*
 * Lever: a target on flash, verified by streaming. A pass costs the same read
 * whatever it verifies, so the tree is grown by gain over cost: what a token
 * adds to the expected length, by the draft's probabilities and how far these
 * could be relied on lately, over what it adds to the time of drafting and
 * verifying (section 4.2). In the middle of the target an exit predictor
 * drops rows that have little chance (4.3), where that saves more than it
 * loses, and logits are computed for the rows on the accepted way alone (4.4).
 */
#include "host/head/exit_head.h"
#include "host/method/cycle.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/tree/tree_cost.h"

/*
 * The first trees grow to set sizes, a quarter of the rows, half and all, so
 * that the profile knows what their shapes cost; the paper profiles in advance.
 * The very first pass, which finds the device cold and all slots full, tells
 * little of the others.
 */
#define FIRST_SIZES 4

static const struct cost nothing_known;

/* Of the accepted tokens, as the paper measured it. */
#define PRUNING_LOSS 0.05

static uint32_t lever_rows(const struct method_env *env)
{
	return env->tree_rows;
}

static const struct cost *try_sizes(struct cycle *c)
{
	uint64_t cycles = c->env->stats.cycles;
	uint32_t rows;

	if (cycles >= FIRST_SIZES)
		return c->env->cost;
	rows = c->rows >> (FIRST_SIZES - 1 - cycles);
	if (rows > 1 && rows < c->limits.rows)
		c->limits.rows = rows;
	return &nothing_known;
}

static void see_costs(struct cycle *c)
{
	struct cost *cost = c->env->cost;

	if (c->env->stats.cycles == 1)
		return;
	if (c->expanded)
		cost_saw_draft(cost, c->expanded, cycle_draft_cost(c));
	cost_saw_verify(cost, c->verified, c->leaves, cycle_verify_cost(c));
}

/*
 * Whether dropping half of the rows saves more than what it loses: verification
 * that waits for flash takes as long with all of them.
 */
static bool pruning_pays(const struct cycle *c)
{
	const struct tree *t = c->tree;
	const struct cost *cost = c->env->cost;
	uint32_t layers = session_model(c->session)->n_layer;
	double upper = (double)(layers - exit_head_layers(c->env->exit)) /
		(double)layers;
	double saved = cost_verify(cost, t->n, t->leaves) -
		cost_verify(cost, (t->n + 1) / 2, (t->leaves + 1) / 2);

	return upper * saved > PRUNING_LOSS * c->env->lever.latency;
}

static int lever_cycle(struct cycle *c, struct err *e)
{
	struct method_env *env = c->env;
	struct cycle_pass pass = { 0 };
	int ret = cycle_begin(c, env->tree_depth, e);

	if (!ret)
		ret = build_lever(c->tree, &c->drafter, &c->limits,
			try_sizes(c), &env->lever, e);
	if (ret)
		return ret;
	env->stats.gain += env->lever.gain;
	pass.prune = env->exit && (env->prune_always || pruning_pays(c));
	ret = cycle_verify(c, &pass, e);
	if (ret)
		return ret;
	see_costs(c);
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
