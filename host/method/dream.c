/*
 * Masked diffusion as Dream decodes it (Ye et al., "Dream 7B: Diffusion Large
 * Language Models", 2025). Time runs from 1 to nearly 0 in even steps; from t
 * to s a share 1 - s/t of the masks that are left is decided, rounded down, and
 * at the end all. Which ones: the first by the order asked for, of which
 * `random` is Dream's `origin`, where each mask is decided with that
 * probability; or, with a temperature of the order, ones drawn by it.
 *
 * All positions are computed in each pass, and nothing is kept. The masks are a
 * block's, as of llada: Dream's own text is one block as long as the answer. A
 * step that decides nothing would say what the next says, and is not computed.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

#include <math.h>

struct dream_options {
	double least; /* the time at the end */
	double order_temperature;
};

/* clang-format off */
#define IN(field) OPT_IN(dream_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "eps", IN(least), "T",
		"dream: time at which the last mask is filled ({})",
		1e-9, 0.5 },
	{ OPT_FLOAT, 0, "order-temperature", IN(order_temperature), "T",
		"dream: draw the guesses to fix at this temperature ({}: "
		"take the best in --order)", 0, 1000 },
};
/* clang-format on */

static const struct opt_table dream_table = {
	.heading = "diffusion",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct dream_options){ .least = 1e-3 },
	.size = sizeof(struct dream_options),
};

static const struct opt_table *const options[] = { &block_table, &steps_table,
	&dream_table, NULL };

/* The share of the masks decided in step i of n. */
static double share(const struct dream_options *o, uint32_t i, uint32_t n)
{
	double step = (1 - o->least) / n;

	return i + 1 == n ? 1 : 1 - (1 - step * (i + 1)) / (1 - step * i);
}

/* Gumbel noise on the scores: the first ones are then drawn without
 * replacement by exp(score / temperature). */
static void draw_order(
	struct denoising *d, double temperature, uint32_t n, uint32_t pass)
{
	const struct sampler_opts *o = d->guessing.sampling;

	for (uint32_t i = 0; i < n; i++) {
		struct guess *g = &d->guess[i];
		uint64_t counter = (uint64_t)g->at << 34 |
			(uint64_t)pass << 24 | (d->guessing.n_vocab + 1);
		double u = rng_uniform(o->seed, o->stream, counter);

		g->score = g->score / temperature - log(-log(u));
	}
}

/* Of n guesses by score, those that an even draw decides. */
static uint32_t drawn(const struct denoising *d, uint32_t n, double p)
{
	uint32_t k = 0;

	while (k < n && d->guess[k].score >= 1 - p)
		k++;
	return k;
}

static int take_step(struct denoising *d, const struct dream_options *o,
	uint32_t i, uint32_t steps, struct err *e)
{
	bool origin = d->guessing.order == ORDER_RANDOM;
	uint32_t n = denoising_masks(d, d->begin, d->end, d->at), from;
	double p = share(o, i, steps);
	uint32_t keep = (uint32_t)(n * p);
	int ret;

	if (!n || (!origin && !keep))
		return 0;
	ret = denoising_whole_pass(d, &from, e);
	if (!ret)
		ret = denoising_guess(d, from, d->at, n, i, e);
	if (ret)
		return ret;
	if (!origin && o->order_temperature > 0)
		draw_order(d, o->order_temperature, n, i);
	guesses_by_score(d->guess, n);
	denoising_take(d, origin ? drawn(d, n, p) : keep);
	denoising_tell(d, d->begin, d->end);
	return 0;
}

static int fill_block(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	const struct dream_options *o = method_options(env, &dream_table);
	const struct steps_options *s = method_options(env, &steps_table);
	uint32_t steps;
	int ret = denoising_check_room(d, e);

	if (ret)
		return ret;
	denoising_begin(d, denoising_length(env));
	steps = s->steps ? s->steps : d->end - d->begin;
	for (uint32_t i = 0; i < steps && !ret && !gen_done(d->gen); i++)
		ret = take_step(d, o, i, steps, e);
	if (!ret)
		denoising_append(d);
	return ret;
}

static int dream_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	const struct steps_options *o = method_options(env, &steps_table);
	struct denoising d;
	int ret = denoising_init(&d, env, s, g, denoising_whole_limit(s), e);

	d.guessing.tempered = true;
	d.guessing.order = (enum guess_order)o->order;
	while (!ret && !gen_done(g))
		ret = fill_block(&d, env, e);
	denoising_release(&d);
	return ret;
}

static uint32_t dream_rows(const struct method_env *env)
{
	return WIRE_MAX_ROWS;
}

const struct method method_dream = {
	.name = "dream",
	.summary = "masked diffusion with Dream's schedule and orders",
	.diffusion = true,
	.runs = METHOD_WINDOW,
	.options = options,
	.decode_rows = dream_rows,
	.run = dream_run,
};
