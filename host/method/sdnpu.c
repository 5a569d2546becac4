/*
 * sd.npu (Chen et al., "Accelerating mobile language model via speculative
 * decoding and NPU-coordinated execution", 2025): drafts are retrieved, not
 * computed. Answers often repeat words of the prompt and of earlier answers; a
 * suffix automaton over these texts finds words that may follow. Two options
 * add candidates: the target's own predictions for the prompt (--calibration,
 * section 3.3), and tokens that an earlier verification rejected (--reuse,
 * section 3.4). A pass of an NPU takes about the same time for one row as for
 * all rows of its graph, so the most probable candidates fill these rows.
 *
 * Where each row costs time, as on a CPU, a row is useful only if it saves more
 * time than it costs. Therefore nodes are added by the ratio of gain to cost,
 * as in the method lever, with costs measured at run time. On an NPU, where
 * additional rows are nearly free, this rule fills all rows. If no drafter
 * finds candidates, nothing is drafted.
 */
#include "base/strbuf.h"
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/tree/tree_cost.h"

struct sdnpu_options {
	uint32_t rows;
	bool fill, calibration, reuse;
};

/* clang-format off */
#define IN(field) OPT_IN(sdnpu_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "verify-rows", IN(rows), "N",
		"method sdnpu: number of rows of the decode graph, which "
		"drafted tokens fill ({})",
		2, COST_ROWS },
	{ OPT_FLAG, 0, "fill-rows", IN(fill), NULL,
		"method sdnpu: always draft until all rows of a pass "
		"(--verify-rows) are filled, even if this costs more time than "
		"it saves" },
	{ OPT_FLAG, 0, "calibration", IN(calibration), NULL,
		"method sdnpu: also draft the target's predictions for the "
		"prompt, which the device computes while it reads the prompt" },
	{ OPT_FLAG, 0, "reuse", IN(reuse), NULL,
		"method sdnpu: also draft tokens again that verification "
		"rejected earlier" },
};
/* clang-format on */

static const struct opt_table table =
	OPT_TABLE_INIT("trees", option_rows, sdnpu_options, .rows = 32);

static const struct opt_table *const options[] = { &table, NULL };

/*
 * The default drafters. `sam` drafts the tokens that followed earlier
 * occurrences of the text's last tokens. `recycle` drafts the tokens that the
 * target predicted when the text's last token occurred before, because the same
 * tokens often follow again.
 */
#define DRAFT "sam+recycle"

/*
 * Initial estimate of the share of a pass's time that does not depend on the
 * number of rows. Measurements of passes replace the estimate. On a simulated
 * phone a pass of all rows takes little longer than a pass of one row; on a CPU
 * a pass of all rows takes several times as long.
 */
#define FIXED 0.7

/*
 * all-zero costs mean unknown costs: then only the number of rows limits a tree
 */
static const struct cost unknown_cost;

struct sdnpu_state {
	struct cost cost;
	struct gain_rule gain;
};

static uint32_t sdnpu_rows(const struct method_env *env)
{
	const struct sdnpu_options *o = method_options(env, &table);

	return o->rows;
}

static int sdnpu_open(
	struct method_env *env, const struct model *target, struct err *e)
{
	struct sdnpu_state *st = env->state;

	cost_init(&st->cost, FIXED);
	gain_rule_init(&st->gain);
	st->gain.best_prefix = true;
	return 0;
}

static void sdnpu_compose(
	const struct method_env *env, const char *given, struct strbuf *draft)
{
	const struct sdnpu_options *o = method_options(env, &table);

	strbuf_addf(draft, "%s%s%s", given ? given : DRAFT,
		o->calibration ? "+calibrated" : "", o->reuse ? "+reuse" : "");
}

/* ---- functions of struct method ------------------------------------------ */

static void sdnpu_after_pass(struct cycle *c)
{
	struct sdnpu_state *st = c->env->state;

	c->env->stats.gain += st->gain.gain;
	if (c->expanded)
		cost_saw_draft(&st->cost, c->expanded, cycle_draft_cost(c));
	if (c->alone)
		cost_saw_verify(&st->cost, c->verified, c->leaves,
			cycle_verify_cost(c));
	gain_rule_saw(&st->gain, c->tree, c->path + 1, c->n_path - 1, c->next);
}

static void sdnpu_plan(struct cycle *c)
{
	const struct sdnpu_options *o = method_options(c->env, &table);
	struct sdnpu_state *st = c->env->state;

	build_greedy_begin(&c->build, c->tree, cycle_limits(c, c->rows - 1),
		o->fill ? &unknown_cost : &st->cost, &st->gain);
}

const struct method method_sdnpu = {
	.name = "sdnpu",
	.summary = "drafts from earlier text, predictions, rejected drafts",
	.lossless = true,
	.needs_draft = true,
	.options = options,
	.compose = sdnpu_compose,
	.state_bytes = sizeof(struct sdnpu_state),
	.open = sdnpu_open,
	.decode_rows = sdnpu_rows,
	.plan = sdnpu_plan,
	.after_pass = sdnpu_after_pass,
};
