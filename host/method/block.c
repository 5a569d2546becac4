/*
 * Block diffusion (Arriola et al., "Block Diffusion: Interpolating Between
 * Autoregressive and Diffusion Language Models", 2025), greedily and within a
 * block as LLaDA's reference decoder fills one (denoising.h). A block sees
 * itself both ways and all that stands before it, and nothing sees what comes
 * behind its own block: keys and values of a prompt and of finished blocks stay
 * what they are for good. So a pass has rows for the current block alone, over
 * the cache of what is before it.
 *
 * A token that was decided in a pass was a mask in it, and in the block's last
 * pass some still were. What is kept of a block therefore comes of one more
 * pass, over its tokens.
 */
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>

struct state {
	uint32_t length; /* of the model's blocks */
};

static const struct opt_table *const options[] = { &denoising_table, NULL };

static int forward_block(struct denoising *d, struct err *e)
{
	struct row row[WIRE_MAX_ROWS];
	const struct rows rows = { SIGHT_BLOCK, d->end - d->begin, row };

	for (uint32_t i = 0; i < rows.n; i++)
		row[i] = (struct row){ .token = d->x[d->begin + i],
			.position = d->begin + i,
			.sequence = SESSION_TEXT,
			.end = d->end };
	return session_forward(d->session, &rows, e);
}

static int keep_block(struct denoising *d, struct err *e)
{
	int ret = forward_block(d, e);

	return ret ? ret
		   : session_accept(d->session, SESSION_TEXT, NULL,
			     d->end - d->begin, e);
}

static int fill_blocks(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	const struct denoising_pass pass = { .forward = forward_block };
	const struct state *state = env->state;
	int ret = 0;

	while (!ret && !gen_done(d->gen)) {
		denoising_begin(d, state->length);
		ret = denoising_fill(
			d, denoising_options(env)->steps, &pass, e);
		if (!ret)
			denoising_append(d);
		if (!ret && !gen_done(d->gen))
			ret = keep_block(d, e);
	}
	return ret;
}

static int block_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct denoising d;
	size_t n;
	const int32_t *prompt = gen_tokens(g, &n);
	uint32_t row;
	int ret = denoising_init(
		&d, method_block.name, s, g, session_context(s), e);

	if (!ret && !gen_done(g))
		ret = session_prefill(s, SESSION_TEXT, prompt, n, &row, e);
	if (!ret)
		ret = fill_blocks(&d, env, e);
	denoising_release(&d);
	return ret;
}

static int block_open(
	struct method_env *env, const struct model *m, struct err *e)
{
	uint32_t asked = denoising_options(env)->length;
	struct state *state = env->state;

	state->length = m->block_length;
	if (asked == m->block_length || asked == DENOISING_LENGTH)
		return 0;
	return err_set(e, EINVAL,
		"--block %u, but the model was trained with blocks of %u "
		"positions; leave --block out",
		asked, m->block_length);
}

static uint32_t block_rows(const struct method_env *env)
{
	const struct state *state = env->state;

	return state->length;
}

const struct method method_block = {
	.name = "block",
	.summary = "block diffusion, behind a cache of finished blocks",
	.diffusion = true,
	.by_block = true,
	.options = options,
	.state_bytes = sizeof(struct state),
	.open = block_open,
	.decode_rows = block_rows,
	.run = block_run,
};
