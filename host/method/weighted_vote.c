/*
 * Votes weighted by reward (Li et al., "Making language models better reasoners
 * with step-aware verifier", 2023; "weighted best of N" in the project
 * search-and-learn). The scores of samples with the same answer are added. The
 * answer with the largest sum wins, and the best-scored sample with this answer
 * is chosen.
 */
#include "host/method/choosing.h"
#include "host/method/early_stop.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

#include <math.h>

static const struct opt_table *const tables[] = { &samples_table, &answer_table,
	&aggregate_table, &early_stop_table, NULL };

static void by_score(
	const struct method_env *env, struct candidate *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		c[i].weight = isnan(c[i].value) ? 0 : c[i].value;
}

static const struct chooser how = { .weigh = by_score, .votes = true };

const struct method method_weighted_vote = {
	.name = "weighted-vote",
	.summary = "the answer with the largest sum of rewards (-N)",
	.needs_reward = true,
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.temperature = samples_temperature,
	.many = &choosing_steps,
	.chooser = &how,
};
