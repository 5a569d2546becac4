/*
 * Self-consistency (Wang et al., "Self-consistency improves chain of thought
 * reasoning in language models", 2023): choose the most frequent answer; among
 * equally frequent answers, choose the answer of the sample with the lowest
 * number.
 */
#include "host/method/choosing.h"
#include "host/method/decided.h"
#include "host/method/early_stop.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

static const struct opt_table *const tables[] = { &samples_table, &answer_table,
	&early_stop_table, &decided_table, NULL };

static const struct chooser how = { .votes = true };

const struct method method_vote = {
	.name = "vote",
	.summary = "the most frequent answer of -N samples",
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.temperature = samples_temperature,
	.many = &choosing_steps,
	.chooser = &how,
};
