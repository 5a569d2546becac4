/* Choose the sample that is likeliest per token: the one with the largest mean
 * log-probability of its tokens. */
#include "host/method/choosing.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

#include <math.h>

static const struct opt_table *const tables[] = { &samples_table, NULL };

static double mean_logprob(const struct method_env *env, const struct sample *s)
{
	return s->n ? s->logprob / (double)s->n : NAN;
}

static const struct chooser how = { .value = mean_logprob };

const struct method method_mean_logprob = {
	.name = "mean-logprob",
	.summary = "of -N samples, the one with the best mean log-probability",
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.temperature = samples_temperature,
	.many = &choosing_steps,
	.chooser = &how,
};
