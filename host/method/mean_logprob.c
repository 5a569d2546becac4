/*
 * The sample that the model itself finds likeliest, a token: the largest mean
 * of its tokens' log-probabilities.
 */
#include "host/method/choosing.h"
#include "host/method/method.h"
#include "host/method/samples.h"

#include <math.h>

static const struct opt_table *const tables[] = { &samples_table, NULL };

static double mean_logprob(const struct method_env *env, const struct sample *s)
{
	return s->n ? s->logprob / (double)s->n : NAN;
}

static int mean_logprob_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	static const struct chooser how = { .value = mean_logprob };

	return choosing_run(s, g, env, &how, e);
}

const struct method method_mean_logprob = {
	.name = "mean-logprob",
	.summary = "of many samples (-N) the likeliest, a token",
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.temperature = samples_temperature,
	.run = mean_logprob_run,
};
