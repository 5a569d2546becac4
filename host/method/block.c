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
 *
 * Where rows speak of the next position, the one before a block has said by
 * then what its first token is like; that is the same in all of its passes.
 */
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct state {
	uint32_t length; /* of the model's blocks */
};

/* Of a run; d->arg. */
struct text {
	float *behind; /* [n_vocab] logits behind the text so far, where rows
			* speak of the next position; NULL: they do not */
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

static int logits_of(struct denoising *d, uint32_t at, struct err *e)
{
	const struct text *t = d->arg;
	const uint32_t row = at - d->begin;

	if (!t->behind)
		return session_logits(d->session, row, d->logits, e);
	if (row)
		return session_logits(d->session, row - 1, d->logits, e);
	memcpy(d->logits, t->behind, d->n_vocab * sizeof(*d->logits));
	return 0;
}

/* What the last row of the pass behind us says. */
static int keep_behind(struct denoising *d, uint32_t row, struct err *e)
{
	const struct text *t = d->arg;

	return t->behind ? session_logits(d->session, row, t->behind, e) : 0;
}

static int keep_block(struct denoising *d, struct err *e)
{
	const uint32_t n = d->end - d->begin;
	int ret = forward_block(d, e);

	if (!ret)
		ret = keep_behind(d, n - 1, e);
	return ret ? ret : session_accept(d->session, SESSION_TEXT, NULL, n, e);
}

static int read_prompt(struct denoising *d, struct err *e)
{
	size_t n;
	const int32_t *prompt = gen_tokens(d->gen, &n);
	uint32_t row;
	int ret = session_prefill(d->session, SESSION_TEXT, prompt, n, &row, e);

	return ret ? ret : keep_behind(d, row, e);
}

static int fill_blocks(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	const struct denoising_pass pass = { forward_block, logits_of };
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
	struct text text = { 0 };
	int ret = denoising_init(
		&d, method_block.name, s, g, session_context(s), e);

	d.arg = &text;
	if (!ret && session_model(s)->shift_logits) {
		text.behind = malloc(d.n_vocab * sizeof(*text.behind));
		if (!text.behind)
			ret = err_sys(e, ENOMEM, "cannot keep logits");
	}
	if (!ret && !gen_done(g))
		ret = read_prompt(&d, e);
	if (!ret)
		ret = fill_blocks(&d, env, e);
	denoising_release(&d);
	free(text.behind);
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
	.runs = METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct state),
	.open = block_open,
	.decode_rows = block_rows,
	.run = block_run,
};
