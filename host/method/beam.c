/*
 * Step-level beam search (Snell et al. 2024; search-and-learn's recipe): after
 * every step the best N / M of all beams go on, each as M. Who has ended leaves
 * the pool and is finished; the others make N beams again.
 */
#include "host/method/beams.h"
#include "host/method/choosing.h"
#include "host/method/method.h"
#include "host/method/samples.h"

static const struct opt_table *const tables[] = { &samples_table, &beam_table,
	&aggregate_table, NULL };

static int beam_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	uint32_t n = samples_all(env);
	const struct beams_plan plan = { .tree = n,
		.keep = n / beams_width(env) };

	return beams_run(s, g, env, &plan, e);
}

const struct method method_beam = {
	.name = "beam",
	.summary = "beam search over steps by reward (-N beams)",
	.needs_reward = true,
	.options = tables,
	.state_bytes = sizeof(struct beams_told),
	.open = beams_open,
	.decode_rows = samples_rows,
	.sequences = samples_all,
	.temperature = samples_temperature,
	.run = beam_run,
	.tally = beams_tally,
	.tell = beams_tell,
};
