/*
 * Block diffusion (Arriola et al., "Block Diffusion: Interpolating Between
 * Autoregressive and Diffusion Language Models", 2025). The text is generated
 * in blocks of consecutive positions. Within a block the masks are filled as in
 * LLaDA's reference decoder (denoising.h). A position attends to all positions
 * of its block and of earlier blocks, and to no later block. So the keys and
 * values of the prompt and of finished blocks never change, and a pass has rows
 * only for the current block; all earlier positions are cached.
 *
 * In the pass that guesses a position's token, the input of the position is the
 * mask, so this pass computes keys and values of the mask. Therefore, when a
 * block has no mask left, one more pass computes the keys and values of the
 * block's tokens, which are cached.
 *
 * With --no-cache nothing is cached, and each pass has rows for the prompt and
 * all blocks up to the current one, which attend as described above. The option
 * is for checking that the cache is exact. With --canvas=N each pass also has
 * rows for the masks of later blocks, so that at least N positions after the
 * prompt are computed; this is for measuring the cost of passes over a whole
 * answer.
 *
 * With shifted logits (d->shift: a row predicts the token of the next position)
 * the row that precedes a block predicts the block's first token. This row is
 * the same in all passes over the block, so its logits are computed once and
 * stored.
 */
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

struct cache_options {
	bool no_cache;
};

/* clang-format off */
static const struct opt cache_rows[] = {
	{ OPT_FLAG, 0, "no-cache", OPT_IN(cache_options, no_cache), NULL,
		"method block: cache no keys and values, but compute the whole "
		"text in every pass; slower, with the same result" },
};
/* clang-format on */

static const struct opt_table cache_table =
	OPT_TABLE_INIT("diffusion", cache_rows, cache_options, 0);

static const struct opt_table *const options[] = { &block_table, &canvas_table,
	&steps_table, &threshold_table, &cache_table, NULL };

struct text {
	/* first position of the current block; when the block is filled,
	 * d->begin is already the end of the block */
	uint32_t begin;
	/* whether the current block is filled; the next pass then computes the
	 * keys and values of its tokens */
	bool filled;
	/* whether the current pass computes a filled block, whose keys and
	 * values are cached after the pass */
	bool caches;
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

/* Plan a pass over the current block. With a cache, a filled block is computed
 * once more, so that its keys and values can be cached. */
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
	if (!cached)
		denoising_lay_canvas(d);
	denoising_rows(d, VISIBILITY_BLOCK, cached ? t->begin : 0,
		cached ? d->end : d->last);
	d->clear_cache = !cached;
	/* A row of the prompt attends to itself and earlier positions; any
	 * other row also attends to the rest of its block. */
	for (uint32_t i = 0; i < d->n_rows; i++) {
		uint32_t at = d->row[i].position, end = at + 1;

		if (at >= first)
			end = first +
				((at - first) / state->length + 1) *
					state->length;
		d->row[i].end = end < d->last ? end : d->last;
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
	denoising_report(d, d->end);
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
