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
 * That this cache is exact can be asked for: with no_cache nothing is kept, and
 * each pass computes the text from its beginning, with the same visibility.
 *
 * Where rows speak of the next position, the one before a block has said by
 * then what its first token is like; that is the same in all of its passes.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

struct state {
	uint32_t length; /* of the model's blocks */
};

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
	bool filled;    /* and its keys and values are to be kept */
	bool keeps;     /* which this pass does */
};

static bool keeps(const struct method_env *env)
{
	const struct cache_options *o = method_options(env, &cache_table);

	return !o->no_cache;
}

static int block_start(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);
	bool kept = keeps(d->env);

	d->guessing.order = (enum guess_order)o->order;
	d->reads_prompt = kept;
	return denoising_reserve(d,
		kept ? session_context(d->session)
		     : denoising_whole_limit(d->session),
		e);
}

static int block_prompt(struct denoising *d, uint32_t row, struct err *e)
{
	uint32_t n = (uint32_t)gen_prompt_length(d->gen);

	return d->shift ? denoising_keep_behind(d, row, n, e) : 0;
}

/* Rows of a prompt attend to themselves and what is before, others to their
 * block as well. */
static void attend_to_blocks(struct denoising *d, uint32_t length)
{
	const uint32_t first = (uint32_t)gen_prompt_length(d->gen);

	for (uint32_t i = 0; i < d->n_rows; i++) {
		uint32_t at = d->row[i].position, end = at + 1;

		if (at >= first)
			end = first + ((at - first) / length + 1) * length;
		d->row[i].end = end < d->end ? end : d->end;
	}
}

/* A block that is filled is computed once more, to be kept. */
static int block_plan(struct denoising *d, struct err *e)
{
	const struct state *state = d->env->state;
	struct text *t = d->own;
	bool kept = keeps(d->env);
	int ret;

	t->keeps = kept && t->filled;
	if (!t->keeps) {
		ret = d->begin < d->end || kept ? 0
						: denoising_check_room(d, e);
		if (ret)
			return ret;
		if (d->begin == d->end)
			denoising_begin(d, state->length);
		t->begin = d->begin;
	}
	denoising_rows(d, VISIBILITY_BLOCK, kept ? t->begin : 0, d->end);
	d->anew = !kept;
	attend_to_blocks(d, state->length);
	if (!t->keeps)
		denoising_ask(d, d->begin, d->end);
	return 0;
}

static int block_took(struct denoising *d, struct err *e)
{
	const struct steps_options *o = method_options(d->env, &steps_table);
	struct text *t = d->own;
	uint32_t length = d->end - t->begin;
	uint32_t steps = o->steps && o->steps < length ? o->steps : length;
	int ret = 0;

	if (t->keeps) {
		t->filled = false;
		if (d->shift)
			ret = denoising_keep_behind(d, length - 1, d->end, e);
		if (ret)
			return ret;
		session_count_valid(d->session, length);
		return denoising_accept(d, length, e);
	}
	denoising_take(d,
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
	.took = block_took,
};

static int block_open(
	struct method_env *env, const struct model *m, struct err *e)
{
	struct state *state = env->state;

	return denoising_choose_length(env, m, &state->length, e);
}

static uint32_t block_rows(const struct method_env *env)
{
	const struct state *state = env->state;

	return keeps(env) ? state->length : WIRE_MAX_ROWS;
}

const struct method method_block = {
	.name = "block",
	.summary = "block diffusion with a cache of finished blocks",
	.diffusion = true,
	.runs = METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct state),
	.open = block_open,
	.decode_rows = block_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
