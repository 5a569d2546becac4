/*
 * Masked diffusion, decoded as in the model Dream (Ye et al., "Dream 7B:
 * Diffusion Large Language Models", 2025). A block is decoded in steps; the
 * diffusion time falls from 1 to EPS in equal intervals. The step from time t
 * to time s fills the share 1 - s/t of the remaining masks, rounded down; the
 * last step fills all masks. The masks to fill are those with the best guesses
 * (predicted tokens) by --order. If --order-temperature is not 0, they are
 * instead drawn at random at this temperature, so that better guesses are more
 * likely. --order random is Dream's `origin`: each mask is filled with the
 * probability 1 - s/t.
 *
 * Every pass computes all positions, and nothing is cached. Only the current
 * block has masks, as in the method llada; Dream's own decoder uses one block
 * as long as the answer. A step that fills no mask is skipped, because it would
 * not change the input of the next step.
 */
#include "base/rng.h"
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/text/sampler.h"

#include <math.h>

#define EPS 1e-3 /* diffusion time at the end of a block's last step */

struct dream_options {
	double order_temperature;
};

/* clang-format off */
#define IN(field) OPT_IN(dream_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "order-temperature", IN(order_temperature), "T",
		"method dream: temperature for drawing at random which guesses "
		"(predicted tokens) to keep ({}: keep the best by --order)",
		0, 1000 },
};
/* clang-format on */

static const struct opt_table dream_table =
	OPT_TABLE_INIT("diffusion", option_rows, dream_options, 0);

static const struct opt_table *const options[] = { &block_table, &steps_table,
	&dream_table, NULL };

struct text {
	uint32_t steps; /* number of steps of a block */
};

/* The share 1 - s/t of the masks that step i of n fills. */
static double share(uint32_t i, uint32_t n)
{
	double step = (1 - EPS) / n;

	return i + 1 == n ? 1 : 1 - (1 - step * (i + 1)) / (1 - step * i);
}

static int dream_start(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);

	d->guessing.tempered = true;
	d->guessing.order = (enum guess_order)o->order;
	return denoising_reserve(d, denoising_whole_limit(d->session), e);
}

/* Plan the next step, skipping steps that fill no mask; the last step fills all
 * masks. */
static int dream_plan(struct denoising *d, struct err *e)
{
	const struct steps_options *s = method_options(d->env, &steps_table);
	bool origin = d->guessing.order == ORDER_RANDOM;
	struct text *t = d->own;
	int ret = denoising_next_block(d, denoising_length(d->env), e);

	if (ret)
		return ret;
	t->steps = s->steps ? s->steps : d->end - d->begin;
	denoising_whole_pass(d);
	denoising_predict_masks(d, d->begin, d->end);
	while (!origin && !(uint32_t)(d->n_at * share(d->pass, t->steps)))
		d->pass++;
	return 0;
}

static int dream_after_pass(struct denoising *d, struct err *e)
{
	const struct dream_options *o = method_options(d->env, &dream_table);
	const struct sampler_opts *s = d->guessing.sampling;
	const struct text *t = d->own;
	double p = share(d->pass, t->steps);
	uint32_t keep = (uint32_t)(d->n_at * p);
	bool origin = d->guessing.order == ORDER_RANDOM;

	/*
	 * With Gumbel noise added to the scores, taking the guesses with the
	 * largest sums is drawing without replacement, with probabilities
	 * proportional to exp(score / temperature).
	 */
	for (uint32_t i = 0; !origin && o->order_temperature > 0 && i < d->n_at;
		i++) {
		struct guess *g = &d->guess[i];
		uint64_t counter = (uint64_t)g->at << 34 |
			(uint64_t)d->pass << 24 | (d->guessing.n_vocab + 1);
		double u = rng_uniform(s->seed, s->stream, counter);

		g->score = g->score / o->order_temperature - log(-log(u));
	}
	guesses_sort(d->guess, d->n_at);
	/* with --order random a score is a uniform random number, so each guess
	 * is kept with the probability p */
	if (origin)
		for (keep = 0; keep < d->n_at && d->guess[keep].score >= 1 - p;)
			keep++;
	denoising_commit(d, keep);
	denoising_report(d, d->end);
	d->pass++;
	denoising_end_block(d);
	return 0;
}

static const struct denoising_steps steps = {
	.start = dream_start,
	.plan = dream_plan,
	.after_pass = dream_after_pass,
};

const struct method method_dream = {
	.name = "dream",
	.summary = "masked diffusion with Dream's schedule and orders",
	.diffusion = true,
	.runs = METHOD_WINDOW,
	.options = options,
	.decode_rows = denoising_all_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
