/*
 * sd.npu (Chen et al., "Accelerating mobile language model via speculative
 * decoding and NPU-coordinated execution", 2025): drafts that are found and not
 * computed. The answer's words stand in the prompt and in earlier answers, the
 * target's own expectations of the prompt calibrate what is found there (3.3),
 * and what verification rejected is drafted again (3.4). A pass of an NPU costs
 * the same for one row as for all of its graph, so all that is known competes
 * for these rows by its probability.
 *
 * Where rows cost, as on a CPU, a row must bring more than it costs: trees grow
 * by gain over cost, as lever's do, by costs learnt while it runs. On an NPU
 * that fills the graph; on text with nothing to find it drafts nothing.
 */
#include "base/checked.h"
#include "base/strbuf.h"
#include "host/draft/drafting.h"
#include "host/method/cycle.h"
#include "host/tree/tree_cost.h"

struct sdnpu_options {
	uint32_t rows;
	bool fill, calibration, no_reuse;
};

/* clang-format off */
#define IN(field) OPT_IN(sdnpu_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "verify-rows", IN(rows), "N",
		"sdnpu: rows of the decode graph, filled by drafts ({})",
		2, COST_ROWS },
	{ OPT_FLAG, 0, "fill-rows", IN(fill), NULL,
		"sdnpu: fill all rows with drafts, whatever they cost" },
	{ OPT_FLAG, 0, "calibration", IN(calibration), NULL,
		"sdnpu: also draft from the target's predictions for the "
		"prompt; computes the logits of the prompt" },
	{ OPT_FLAG, 0, "no-reuse", IN(no_reuse), NULL,
		"sdnpu: do not draft rejected tokens again" },
};
/* clang-format on */

static const struct opt_table table = {
	.heading = "trees",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct sdnpu_options){ .rows = 32 },
	.size = sizeof(struct sdnpu_options),
};

static const struct opt_table *const options[] = { &table, NULL };

/* What is found in the text, and what the target said behind each token last,
 * which other texts of a kind have in common. */
#define DRAFT "sam+recycle"

/* Of a pass: a phone's costs nearly as much for one row as for all, a
 * processor's a few times less. */
#define FIXED 0.7

/* By which only the rows end a tree. */
static const struct cost nothing_known;

struct sdnpu_state {
	struct cost cost;
	struct gain_rule gain;
};

static const struct sdnpu_options *sdnpu_options(const struct method_env *env)
{
	return method_options(env, &table);
}

static uint32_t sdnpu_rows(const struct method_env *env)
{
	return sdnpu_options(env)->rows;
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
	const struct method_env *env, const char *said, struct strbuf *draft)
{
	const struct sdnpu_options *o = sdnpu_options(env);

	strbuf_addf(draft, "%s%s%s", said ? said : DRAFT,
		o->calibration ? "+calibrated" : "",
		o->no_reuse ? "" : "+reuse");
}

/* ---- the algorithm ------------------------------------------------------- */

static void sdnpu_took(struct cycle *c)
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
	struct sdnpu_state *st = c->env->state;

	build_greedy_begin(&c->build, c->tree, cycle_limits(c, c->rows - 1),
		sdnpu_options(c->env)->fill ? &nothing_known : &st->cost,
		&st->gain);
}

const struct method method_sdnpu = {
	.name = "sdnpu",
	.summary = "drafts found in text, prompt logits and rejected drafts",
	.lossless = true,
	.needs_draft = true,
	.options = options,
	.compose = sdnpu_compose,
	.state_bytes = sizeof(struct sdnpu_state),
	.open = sdnpu_open,
	.decode_rows = sdnpu_rows,
	.plan = sdnpu_plan,
	.took = sdnpu_took,
};
