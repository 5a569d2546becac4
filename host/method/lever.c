/*
 * Lever (section numbers refer to the Lever paper): speculative decoding with a
 * target whose layers are streamed from flash. A pass reads the same bytes from
 * flash, whatever the number of tokens that it verifies. So the size of the
 * tree T is chosen by the ratio of gain to cost:
 *
 *   G(T) = 1 + sum of R(v) over the drafted nodes v
 *            the expected number of tokens of a cycle (a draft and its
 *            verification). R(v) is the product of Phi(q) along v's path; q is
 *            the draft's probability, and Phi corrects q with the results of
 *            recent verifications (struct gain_rule)
 *   L(T)     the time of the cycle: drafting and verifying
 *            (host/tree/pass_cost.h)
 *
 * Drafting (4.2, Algorithm 1): nodes are added one by one, always the node with
 * the largest R(v) / dL(v), where dL(v) is the increase of L(T) by v. The paper
 * stops when the largest ratio is G(T) / L(T) or less (--stop-rule). By
 * default, growth continues beyond that point; then the first n added nodes are
 * kept, with the n that gives the largest G(T) / L(T). The reason is that L(T)
 * grows in steps: the paper's rule stops at a step, although several more nodes
 * together would gain more than the step costs (host/tree/build.h). If the
 * recent drafts are estimated to have lost time, nothing is drafted for some
 * cycles.
 *
 * Verification (4.3): in the middle of the target's layers, an exit predictor
 * (it predicts tokens from the hidden states at this point) scores the drafted
 * children of each node. Rows are dropped if that raises the expected number of
 * tokens per second (host/tree/prune.h). Logits are computed only when needed,
 * for the rows of the accepted path (4.4).
 */
#include "host/method/lever.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/head/exit_head.h"
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/method/lever_costs.h"
#include "host/scheduler/tree_options.h"
#include "host/shipped/shipped_models.h"

#include <inttypes.h>
#include <string.h>

/*
 * Estimates as measured in the paper, used until pruning has been tried.
 * PRUNING_LOSS: share of the accepted tokens that pruning loses. PRUNING_KEEPS:
 * share of the rows that pruning keeps.
 */
#define PRUNING_LOSS  0.05
#define PRUNING_KEEPS 0.48

/*
 * Initial weights of two probabilities, the draft's q and the exit predictor's
 * r, which are combined to q^DRAFT_WEIGHT * r^EXIT_WEIGHT (calibration.h). With
 * 0.5 each this is the geometric mean.
 */
#define DRAFT_WEIGHT 0.5
#define EXIT_WEIGHT  0.5

/* Each cycle with a draft takes away 1 / SAVED_MEMORY of what all earlier
 * cycles have added to lever_state.saved. */
#define SAVED_MEMORY 10

/* Number of cycles in a period without drafting. REST_FIRST: in the first
 * period. REST_MOST: in the longest period. */
#define REST_FIRST 2
#define REST_MOST  32

/* ---- options ------------------------------------------------------------- */

struct lever_options {
	bool stop_rule;
	/* "none", the file of an exit predictor, or NULL for the bundled
	 * predictor */
	const char *exit;
	/* keep rows that verification reaches with at least this probability;
	 * negative: keep the rows that give the most tokens per second */
	double threshold;
	bool always, no_shadow;
};

/* clang-format off */
#define IN(field) OPT_IN(lever_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLAG, 0, "stop-rule", IN(stop_rule), NULL,
		"method lever: as in Lever's paper, stop growing a drafted "
		"tree when one more node would lower the expected tokens/s "
		"(default: try all sizes and use the best)" },
	{ OPT_STRING, 0, "exit", IN(exit), "FILE|none",
		"method lever: exit predictor, which predicts tokens after a "
		"part of the layers, to prune unlikely nodes of the drafted "
		"tree: FILE, none (no pruning), or a bundled one: exit (after "
		"half of the layers; the default if it was trained for the "
		"model) or exit-third (after a third)",
		.noun = "an exit predictor" },
	{ OPT_FLOAT, 0, "prune-threshold", IN(threshold), "P",
		"method lever: after the exit predictor, keep only nodes that "
		"are accepted with a probability of at least P (default: the "
		"nodes that give the most expected tokens/s)", 0, 1 },
	{ OPT_FLAG, 0, "prune-always", IN(always), NULL,
		"method lever: prune drafted trees in every pass, even if this "
		"is estimated to cost more time than it saves" },
	{ OPT_FLAG, 0, "no-shadow", IN(no_shadow), NULL,
		"method lever: let the exit predictor score only the drafted "
		"children of a node, not also likely tokens that were not "
		"drafted" },
};
/* clang-format on */

static const struct opt_table table =
	OPT_TABLE_INIT("trees", option_rows, lever_options, .threshold = -1);

static const struct opt_table *const options[] = { &tree_table, &table, NULL };

/* ---- opening the method -------------------------------------------------- */

struct lever_state *lever_state(const struct method_env *env)
{
	return env->state;
}

static int lever_open(
	struct method_env *env, const struct model *target, struct err *e)
{
	const struct lever_options *o = method_options(env, &table);
	struct lever_state *st = env->state;
	struct err unfit = { 0 };
	int ret;

	st->cost = (struct pass_cost){ .kept = PRUNING_KEEPS,
		.lost = PRUNING_LOSS };
	gain_rule_init(&st->lever);
	st->lever.best_prefix = !o->stop_rule;
	st->prune = (struct prune_opts){ .threshold = o->threshold,
		.shadow = !o->no_shadow,
		.rule = &st->lever,
		.cost = &st->cost };
	calibration_init(&st->prune.calibration, DRAFT_WEIGHT, EXIT_WEIGHT);
	if (o->exit && !strcmp(o->exit, "none"))
		return 0;
	ret = models_choose(o->exit, MODEL_EXIT, st->exit_path, &unfit);
	if (!ret)
		ret = exit_head_open(&st->exit, st->exit_path, target, &unfit);
	if (!ret)
		return 0;
	st->exit = NULL;
	st->exit_path[0] = '\0';
	/* the bundled predictor was not trained for this target: do not
	 * prune */
	if (!o->exit)
		return 0;
	*e = unfit;
	return ret;
}

static void lever_close(struct method_env *env)
{
	exit_head_close(lever_state(env)->exit);
}

static struct pass_cost *lever_cost(const struct method_env *env)
{
	return &lever_state(env)->cost;
}

static uint32_t lever_exit_layers(const struct method_env *env)
{
	const struct exit_head *exit = lever_state(env)->exit;

	return exit ? exit_head_layers(exit) : 0;
}

static void lever_report(const struct method_env *env, struct strbuf *line)
{
	const struct method_stats *s = &env->stats;
	const struct lever_state *st = env->state;
	double rows = (double)(s->drafted + s->cycles);
	double kept = rows > 0 ? (double)s->kept / rows : 0;
	double right = rows > 0 ? (double)(s->accepted + s->cycles) / rows : 0;

	strbuf_addf(line,
		"exit         %s%s, %.1f %% of the rows kept (%.1f %% "
		"accepted, %.1f %% rejected)",
		st->exit ? "predicted by " : "no predictor", st->exit_path,
		100 * kept, 100 * right, 100 * (kept - right));
	if (st->exit)
		strbuf_addf(line,
			"\n             pruned in %" PRIu64 " of %" PRIu64
			" cycles; in the others pruning would save no time",
			s->pruned, s->cycles);
}

/* ---- functions of struct method ------------------------------------------ */

/*
 * Whether pruning saves more time than the loss of tokens costs. The estimate
 * uses the share of rows that pruning kept and the share of tokens that it lost
 * in recent cycles. (In a pass that waits for flash, pruned rows save no time.)
 * While the cost of rows is unknown, nothing is pruned, so that passes of full
 * trees measure this cost.
 */
static bool pruning_pays(const struct cycle *c)
{
	const struct lever_state *st = lever_state(c->env);
	const struct pass_cost *cost = &st->cost;
	double n = c->tree->n, gain = st->lever.gain;
	double drafting = (double)c->draft_time;
	double lower = st->prune.lower, all, some;

	if (!pass_cost_is_known(cost))
		return false;
	all = pass_cost_rows(cost, n);
	some = lower * all + (1 - lower) * pass_cost_rows(cost, cost->kept * n);
	all = pass_cost_cycle(cost, gain, drafting, all);
	some = pass_cost_cycle(cost, gain, drafting, some + cost->exit);
	return all - some > cost->lost * all;
}

/*
 * Update st->saved with the time that the last draft has saved, compared with
 * passes of one row that emit as many tokens. A draft whose tree is dropped,
 * because no tree would save time, has lost the time of drafting. The expected
 * number of tokens is used instead of the accepted number, which varies more.
 */
static void observe_saving(struct lever_state *st)
{
	const struct pass_cost *cost = &st->cost;
	double alone = pass_cost_cycle(cost, 1, 0, pass_cost_rows(cost, 1));
	double saved = st->lever.gain * alone - st->lever.latency;

	if (st->last_rest && saved > 0)
		st->saved = 0; /* the trial's result replaces earlier ones */
	st->saved += saved - st->saved / SAVED_MEMORY;
}

/* Update the cost model, and the correction Phi of the draft's probabilities,
 * for the next trees. */
static void lever_after_pass(struct cycle *c)
{
	struct lever_state *st = lever_state(c->env);

	if (st->frozen)
		return;
	c->env->stats.gain += st->lever.gain; /* gain is G(T) */
	/* if several lanes share passes, row_budget.c decides whether to draft
	 */
	if (!c->alone)
		st->saved = 0;
	else if (c->limits.depth && st->lever.latency > 0)
		observe_saving(st);
	if (c->exit) {
		pass_cost_see(&st->cost.kept, &st->cost.n_kept,
			(double)c->n_continued / c->verified);
		pass_cost_see(&st->cost.lost, &st->cost.n_lost, c->lost);
		prune_saw(&st->prune, c->tree, c->score, c->path + 1,
			c->n_path - 1, c->next);
	}
	if (c->alone)
		lever_observe_costs(c);
	if (c->alone && !c->env->phone)
		pass_cost_saw_rows(&st->cost, c->verified, c->n_continued,
			lever_lower_share(c), (double)c->device_ns);
	gain_rule_saw(&st->lever, c->tree, c->path + 1, c->n_path - 1, c->next);
}

/*
 * Whether to draft in this cycle. If the recent drafts have lost time, nothing
 * is drafted for some cycles. Then one cycle drafts as a trial, because a text
 * may become more predictable. If the trial saves no time, the next period
 * without drafting is twice as long.
 */
static bool drafting_pays(struct lever_state *st)
{
	if (st->saved >= 0) {
		st->rest = st->last_rest = 0;
		return true;
	}
	if (st->rest)
		return !--st->rest;
	st->last_rest = st->last_rest ? 2 * st->last_rest : REST_FIRST;
	if (st->last_rest > REST_MOST)
		st->last_rest = REST_MOST;
	st->rest = st->last_rest;
	return false;
}

static void lever_plan(struct cycle *c)
{
	struct lever_state *st = lever_state(c->env);

	if (!st->frozen)
		lever_update_costs(c);
	/* a request begins with a trial, because texts differ */
	if (!c->passes && st->rest)
		st->rest = 1;
	cycle_limits(c, tree_depth_weighed(c->env));
	if (!st->frozen && c->limits.depth && !drafting_pays(st))
		c->limits.depth = 0;
	build_lever_begin(
		&c->build, c->tree, &c->limits, &st->cost, &st->lever);
}

static void lever_grown(struct cycle *c)
{
	const struct lever_options *o = method_options(c->env, &table);
	struct lever_state *st = lever_state(c->env);

	st->prune.lower = lever_lower_share(c);
	st->prune.drafting = (double)c->draft_time;
	if (c->tree->n > 1 && st->exit &&
		(st->frozen || o->always || pruning_pays(c))) {
		c->exit = st->exit;
		c->prune = &st->prune;
	}
}

/* Number of nodes for which the tree needs room in addition to its rows. If a
 * drafter expands nodes in batches, the tree also holds expanded nodes that may
 * be dropped before the tree is verified. */
static uint32_t lever_spare(const struct method_env *env)
{
	return drafter_most(env->drafter) > 1 ? tree_decode_rows_weighed(env)
					      : 0;
}

const struct method method_lever = {
	.name = "lever",
	.summary = "a drafted tree with the most expected tokens/s, then "
		   "pruned",
	.lossless = true,
	.needs_draft = true,
	.options = options,
	.state_bytes = sizeof(struct lever_state),
	.open = lever_open,
	.close = lever_close,
	.decode_rows = tree_decode_rows_weighed,
	.exit_layers = lever_exit_layers,
	.cost = lever_cost,
	.probe = lever_probe,
	.spare_nodes = lever_spare,
	.plan = lever_plan,
	.grown = lever_grown,
	.after_pass = lever_after_pass,
	.report = lever_report,
};
