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
#include "host/text/generation.h"

static const struct opt_table *const options[] = { &block_table, &canvas_table,
	&steps_table, NULL };

static int fill_block(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	const struct steps_options *o = method_options(env, &steps_table);
	const struct denoising_rule rule = { .steps = o->steps,
		.threshold = -1 };
	const struct denoising_pass pass = { denoising_whole_pass };
	int ret = denoising_check_room(d, e);

	if (ret)
		return ret;
	denoising_begin(d, denoising_length(env));
	denoising_lay_canvas(d, env);
	ret = denoising_fill(d, &rule, &pass, e);
	if (!ret)
		denoising_append(d);
	return ret;
}

static int llada_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	const struct steps_options *o = method_options(env, &steps_table);
	struct denoising d;
	int ret = denoising_init(&d, env, s, g, denoising_whole_limit(s), e);

	d.guessing.order = (enum guess_order)o->order;
	while (!ret && !gen_done(g))
		ret = fill_block(&d, env, e);
	denoising_release(&d);
	return ret;
}

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
	.run = llada_run,
};
