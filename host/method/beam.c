/*
 * Step-level beam search (Snell et al. 2024, in the variant of the project
 * search-and-learn; see beams.h). The N beams (samples, -N) form one tree.
 * After every step (a piece of the text, --step-end) the best N / M beams are
 * kept, and each of them is continued by M beams (--beam-width). A beam whose
 * text has ended is finished and leaves the tree; forks of the kept beams fill
 * the tree up to N beams again.
 */
#include "host/method/beams.h"
#include "host/method/choosing.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

static const struct opt_table *const tables[] = { &samples_table, &beam_table,
	&aggregate_table, NULL };

static int begin(struct samples *p, struct err *e)
{
	uint32_t n = samples_all(samples_env(p));
	const struct beams_plan plan = { .tree = n,
		.keep = n / beams_width(samples_env(p)) };

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

const struct method method_beam = {
	.name = "beam",
	.summary = "beam search (-N beams): a reward model scores each step",
	.needs_reward = true,
	.options = tables,
	.open = beams_open,
	.decode_rows = beams_rows,
	.sequences = beams_sequences,
	.temperature = samples_temperature,
	.many = &steps,
};
