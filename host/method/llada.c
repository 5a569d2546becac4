/*
 * Masked diffusion as in LLaDA's reference decoder (Nie et al., "Large Language
 * Diffusion Models", 2025; semi-autoregressive, with low-confidence remasking).
 * The text grows by blocks of masks. A pass computes all positions, which
 * attend to each other in both directions. Each step commits an equal share of
 * the guesses (predicted tokens) for the block's masks, the most confident ones
 * first. Nothing is cached.
 *
 * There is one difference from LLaDA: without --canvas (LLaDA's gen_length) a
 * pass has no masks of later blocks. So the largest possible length of the
 * answer changes neither the cost nor the result of a pass.
 */
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"

static const struct opt_table *const options[] = { &block_table, &canvas_table,
	&steps_table, NULL };

static int llada_start(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);

	d->guessing.order = (enum guess_order)o->order;
	return denoising_reserve(d, denoising_whole_limit(d->session), e);
}

static int llada_plan(struct denoising *d, struct err *e)
{
	int ret = denoising_next_block(d, denoising_length(d->env), e);

	if (ret)
		return ret;
	denoising_lay_canvas(d);
	denoising_whole_pass(d);
	denoising_predict_masks(d, d->begin, d->end);
	return 0;
}

static int llada_after_pass(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);
	uint32_t length = d->end - d->begin;
	uint32_t steps = o->steps && o->steps < length ? o->steps : length;

	denoising_commit(d, denoising_choose(d, -1, steps - d->pass++));
	denoising_report(d, d->end);
	denoising_end_block(d);
	return 0;
}

static const struct denoising_steps steps = {
	.start = llada_start,
	.plan = llada_plan,
	.after_pass = llada_after_pass,
};

const struct method method_llada = {
	.name = "llada",
	.summary = "masked diffusion, block by block",
	.diffusion = true,
	.runs = METHOD_WINDOW,
	.options = options,
	.decode_rows = denoising_all_rows,
	.denoise = &steps,
};
