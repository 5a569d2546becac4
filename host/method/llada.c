/*
 * Masked diffusion as LLaDA's reference decoder does it (Nie et al., "Large
 * Language Diffusion Models", 2025; semi-autoregressive, low-confidence
 * remasking). The text grows by blocks of masks. A pass computes all
 * positions, which see one another both ways, and a block's masks are filled
 * by what it says (denoising.h). Nothing is kept from pass to pass: no keys, no
 * values.
 *
 * One thing is ours, unless a canvas is asked for, which is LLaDA's gen_length:
 * masks of later blocks are not there, so that neither the cost of a pass nor
 * what it computes depends on how long a text may become.
 */
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/session/session.h"

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
	denoising_ask(d, d->begin, d->end);
	return 0;
}

static int llada_took(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);
	uint32_t length = d->end - d->begin;
	uint32_t steps = o->steps && o->steps < length ? o->steps : length;

	denoising_take(d, denoising_choose(d, -1, steps - d->pass++));
	denoising_report(d, d->begin, d->end);
	denoising_end_block(d);
	return 0;
}

static const struct denoising_steps steps = {
	.start = llada_start,
	.plan = llada_plan,
	.took = llada_took,
};

static uint32_t llada_rows(const struct method_env *env)
{
	return WIRE_MAX_ROWS; /* the session takes as many as there are */
}

const struct method method_llada = {
	.name = "llada",
	.summary = "masked diffusion, block by block",
	.diffusion = true,
	.runs = METHOD_WINDOW,
	.options = options,
	.decode_rows = llada_rows,
	.denoise = &steps,
};
