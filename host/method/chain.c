/*
 * Speculative decoding with a draft model, in its plain form (Leviathan et al.,
 * 2023). The draft model generates a chain of gamma tokens, one after the
 * other. The target computes all tokens of the chain in one pass, which takes
 * little longer than a pass of one row. The row of each token predicts the next
 * token of the chain. Drafted tokens are accepted as long as the target draws
 * the same token at each position. At the first difference the target's token
 * replaces the drafted token, and the cycle of drafting and verification ends.
 */
#include "base/strbuf.h"
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/tree_options.h"
#include "ipc/wire.h"

/* default of gamma; with a drafter that limits the length of chains, the
 * default is that limit */
#define LENGTH 8

struct chain_options {
	uint32_t length;
};

static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "draft-len", OPT_IN(chain_options, length), "N",
		"method chain: number of tokens to draft for each pass (0: 8 "
		"with a draft model, otherwise as many as the drafter finds)",
		0, WIRE_MAX_ROWS - 1 },
};

static const struct opt_table table =
	OPT_TABLE_INIT("trees", option_rows, chain_options, 0);

static const struct opt_table *const options[] = { &table, &tree_table, NULL };

static uint32_t chain_length(const struct method_env *env)
{
	const struct chain_options *o = method_options(env, &table);

	if (o->length)
		return o->length;
	return env->draft_length ? env->draft_length : LENGTH;
}

static uint32_t chain_rows(const struct method_env *env)
{
	return 1 + chain_length(env);
}

/* With one candidate per node, the tree is a chain. A drafter whose candidates
 * come from several rules then proposes only the token that its first rule
 * gives. */
static void chain_start(struct cycle *c)
{
	c->tree->k = 1;
}

/* By default only the draft model drafts: with one candidate per node, a second
 * drafter could not add candidates to those of the draft model. */
static void chain_compose(
	const struct method_env *env, const char *given, struct strbuf *draft)
{
	strbuf_addf(draft, "%s", given ? given : "model");
}

static void chain_plan(struct cycle *c)
{
	build_chain_begin(
		&c->build, c->tree, cycle_limits(c, chain_length(c->env)));
}

const struct method method_chain = {
	.name = "chain",
	.summary = "a chain of drafted tokens, verified in one pass",
	.lossless = true,
	.needs_draft = true,
	.options = options,
	.compose = chain_compose,
	.decode_rows = chain_rows,
	.start = chain_start,
	.plan = chain_plan,
};
