/*
 * Best of N: a reward model scores the steps of every sample, and the sample
 * with the largest combined score (--aggregate) becomes the text (Snell et al.,
 * "Scaling LLM test-time compute optimally can be more effective than scaling
 * model parameters", 2024; section 7.1 of "Scaling LLM test-time compute with
 * mobile NPU on smartphones").
 */
#include "host/method/choosing.h"
#include "host/method/decided.h"
#include "host/method/early_stop.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

static const struct opt_table *const tables[] = { &samples_table,
	&aggregate_table, &early_stop_table, &decided_table, NULL };

static const struct chooser how = { 0 };

const struct method method_best_of_n = {
	.name = "best-of-n",
	.summary = "of -N samples, the one with the best reward",
	.needs_reward = true,
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.temperature = samples_temperature,
	.many = &choosing_steps,
	.chooser = &how,
};
