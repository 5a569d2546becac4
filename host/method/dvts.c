/*
 * Diverse verifier tree search (Beeching et al. 2024, the variant of the
 * project search-and-learn; see beams.h). The N beams (samples, -N) form N / M
 * independent trees of M beams (--beam-width). After every step (a piece of the
 * text, --step-end) the best beam of each tree is kept and continued by M
 * beams. If the best beam of a tree has ended, the tree is finished, and all
 * its other beams are discarded.
 */
#include "host/method/beams.h"
#include "host/method/choosing.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

static const struct opt_table *const tables[] = { &samples_table, &beam_table,
	&aggregate_table, NULL };

static int begin(struct samples *p, struct err *e)
{
	const struct beams_plan plan = { .tree = beams_width(samples_env(p)),
		.keep = 1,
		.ended_compete = true };

	return beams_begin(p, &plan, e);
}

static const struct many_steps steps = {
	.bytes = sizeof(struct beams),
	.begin = begin,
	.to_score = beams_to_score,
	.next = beams_next,
	.between = beams_ahead,
	.stop = beams_stop,
	.close = beams_close,
	.tally = beams_tally,
	.report = beams_report,
};

const struct method method_dvts = {
	.name = "dvts",
	.summary = "beam search in separate trees, more diverse (-N beams)",
	.needs_reward = true,
	.options = tables,
	.open = beams_open,
	.decode_rows = beams_rows,
	.sequences = beams_sequences,
	.temperature = samples_temperature,
	.many = &steps,
};
