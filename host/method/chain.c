/*
 * Speculation with a draft model, in its plain form (Leviathan et al., 2023):
 * the draft model guesses a few tokens one after the other, and the target
 * looks at all of them in one pass, which costs it little more than a pass for
 * one. Row i of the chain says what comes behind token i; while that is what
 * was guessed, the next row holds as well.
 */
#include "host/method/cycle.h"
#include "host/text/generation.h"

static uint32_t chain_rows(const struct method_env *env)
{
	return 1 + env->draft_length;
}

static int chain_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct cycle c;
	int ret = cycle_open(&c, s, g, env, chain_rows(env), 0, e);

	while (!ret && !gen_done(g)) {
		ret = cycle_begin(&c, env->draft_length, e);
		if (!ret)
			ret = build_chain(c.tree, &c.drafter, &c.limits, e);
		if (!ret)
			ret = cycle_verify(&c, NULL, e);
	}
	cycle_close(&c);
	return ret;
}

const struct method method_chain = {
	.name = "chain",
	.summary = "tokens guessed by a draft model, verified in one pass",
	.lossless = true,
	.needs_draft = true,
	.decode_rows = chain_rows,
	.run = chain_run,
};
