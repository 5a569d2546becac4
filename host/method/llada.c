/*
 * Masked diffusion as LLaDA's reference decoder does it (Nie et al., "Large
 * Language Diffusion Models", 2025; semi-autoregressive, low-confidence
 * remasking). The text grows by blocks of masks. A pass computes all
 * positions, which see one another both ways, and a block's masks are filled
 * by what it says (denoising.h). Nothing is kept from pass to pass: no keys, no
 * values.
 *
 * One thing is ours. Masks of later blocks are not there, so that neither the
 * cost of a pass nor what it computes depends on how long a text may become.
 */
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>

static const struct opt_table *const options[] = { &denoising_table, NULL };

static int forward_all(struct denoising *d, struct err *e)
{
	return session_continue(d->session, SESSION_TEXT, d->x, d->end, e);
}

/* Of the first position nobody speaks but itself. */
static int logits_of(struct denoising *d, uint32_t at, struct err *e)
{
	const uint32_t row =
		session_model(d->session)->shift_logits && at ? at - 1 : at;

	return session_logits(d->session, row, d->logits, e);
}

static int fill_block(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	const struct denoising_options *o = denoising_options(env);
	uint32_t trained = session_model(d->session)->n_ctx;
	const struct denoising_pass pass = { forward_all, logits_of };
	size_t n;
	int ret;

	gen_tokens(d->gen, &n);
	if (n >= d->limit)
		return err_set(e, ENOSPC,
			"a pass of a diffusion model computes all positions at "
			"once, here %u at most, and the text has %zu; try a "
			"shorter prompt%s",
			d->limit, n, n < trained ? " or a larger --ctx" : "");
	denoising_begin(d, o->length);
	ret = denoising_fill(d, o->steps, &pass, e);
	if (!ret)
		denoising_append(d);
	return ret;
}

static int llada_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	uint32_t context = session_context(s), rows = session_max_rows(s);
	struct denoising d;
	int ret = denoising_init(&d, method_llada.name, s, g,
		rows < context ? rows : context, e);

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
