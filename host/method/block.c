/*
 * Block diffusion (Arriola et al., "Block Diffusion: Interpolating Between
 * Autoregressive and Diffusion Language Models", 2025), greedily; within a
 * block as LLaDA's reference decoder (denoising.h). A position attends to its
 * whole block and to everything before the block, and to nothing after the
 * block: so the keys and values of the prompt and of finished blocks never
 * change. A pass has rows for the current block only, over the cache of what
 * precedes the block.
 *
 * A token that is committed in a pass was a mask in that pass, so the keys and
 * values of that pass are not those of the token. A finished block is therefore
 * computed in one more pass, over its tokens, and cached from that pass.
 *
 * --no-cache computes the whole text in each pass, with the same attention mask
 * and nothing cached: a check that the cache is exact.
 *
 * With shifted logits (d->shift) the row before a block predicts the block's
 * first token. That row is the same in all passes of the block, so its logits
 * are computed once and kept.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

struct cache_options {
	bool no_cache;
};

/* clang-format off */
static const struct opt cache_rows[] = {
	{ OPT_FLAG, 0, "no-cache", OPT_IN(cache_options, no_cache), NULL,
		"block: compute the whole text in every pass; slower, with "
		"the same result" },
};
/* clang-format on */

static const struct opt_table cache_table = {
	.heading = "diffusion",
	.rows = cache_rows,
	.n = ARRAY_LEN(cache_rows),
	.defaults = &(const struct cache_options){ 0 },
	.size = sizeof(struct cache_options),
};

static const struct opt_table *const options[] = { &block_table, &steps_table,
	&threshold_table, &cache_table, NULL };

struct text {
	uint32_t begin; /* of the block, also when it is filled */
	bool filled;    /* the block is to be computed once more and cached */
	bool caches;    /* this pass does so */
};

static bool uses_cache(const struct method_env *env)
{
	const struct cache_options *o = method_options(env, &cache_table);

	return !o->no_cache;
}

static int block_start(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);
	bool cached = uses_cache(d->env);

	d->guessing.order = (enum guess_order)o->order;
	d->reads_prompt = cached;
	return denoising_reserve(d,
		cached ? session_context(d->session)
		       : denoising_whole_limit(d->session),
		e);
}

static int block_prompt(struct denoising *d, uint32_t row, struct err *e)
{
	uint32_t n = (uint32_t)gen_prompt_length(d->gen);

	return d->shift ? denoising_carry_logits(d, row, n, e) : 0;
}

/* A filled block is computed once more, to be cached. */
static int block_plan(struct denoising *d, struct err *e)
{
	const struct block_state *state = d->env->state;
	const uint32_t first = (uint32_t)gen_prompt_length(d->gen);
	struct text *t = d->own;
	bool cached = uses_cache(d->env);

	t->caches = cached && t->filled;
	if (!t->caches) {
		int ret = d->begin < d->end || cached
			? 0
			: denoising_check_room(d, e);

		if (ret)
			return ret;
		if (d->begin == d->end)
			denoising_begin(d, state->length);
		t->begin = d->begin;
	}
	denoising_rows(d, VISIBILITY_BLOCK, cached ? t->begin : 0, d->end);
	d->clear_cache = !cached;
	/* Rows of the prompt attend to themselves and earlier positions, other
	 * rows to their block as well. */
	for (uint32_t i = 0; i < d->n_rows; i++) {
		uint32_t at = d->row[i].position, end = at + 1;

		if (at >= first)
			end = first +
				((at - first) / state->length + 1) *
					state->length;
		d->row[i].end = end < d->end ? end : d->end;
	}
	if (!t->caches)
		denoising_predict_masks(d, d->begin, d->end);
	return 0;
}

static int block_after_pass(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);
	struct text *t = d->own;
	uint32_t length = d->end - t->begin;
	uint32_t steps = o->steps && o->steps < length ? o->steps : length;
	int ret = 0;

	if (t->caches) {
		t->filled = false;
		if (d->shift)
			ret = denoising_carry_logits(d, length - 1, d->end, e);
		if (ret)
			return ret;
		session_count_valid(d->session, length);
		return session_accept(d->session, d->sequence, NULL, length, e);
	}
	denoising_commit(d,
		denoising_choose(
			d, denoising_threshold(d->env, -1), steps - d->pass++));
	denoising_report(d, d->begin, d->end);
	denoising_end_block(d);
	t->filled = d->begin == d->end;
	return 0;
}

static const struct denoising_steps steps = {
	.start = block_start,
	.prompt = block_prompt,
	.plan = block_plan,
	.after_pass = block_after_pass,
};

static uint32_t block_rows(const struct method_env *env)
{
	const struct block_state *state = env->state;

	return uses_cache(env) ? state->length : WIRE_MAX_ROWS;
}

const struct method method_block = {
	.name = "block",
	.summary = "block diffusion with a cache of finished blocks",
	.diffusion = true,
	.runs = METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct block_state),
	.open = denoising_open_blocks,
	.decode_rows = block_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
