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
 * each pass computes the text from its beginning, with the same sights.
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

static bool keeps(const struct method_env *env)
{
	const struct cache_options *o = method_options(env, &cache_table);

	return !o->no_cache;
}

/* What the row of a position sees: of the prompt itself and what is before. */
static uint32_t sight_end(const struct denoising *d, uint32_t at)
{
	const uint32_t first = (uint32_t)gen_prompt_length(d->gen);
	const uint32_t *length = d->arg;
	uint32_t end = at + 1;

	if (at >= first)
		end = first + ((at - first) / *length + 1) * *length;
	return end < d->end ? end : d->end;
}

static int forward_from(struct denoising *d, uint32_t from, struct err *e)
{
	struct row row[WIRE_MAX_ROWS];
	const struct rows rows = { SIGHT_BLOCK, d->end - from, row };

	for (uint32_t i = 0; i < rows.n; i++)
		row[i] = (struct row){ .token = d->x[from + i],
			.position = from + i,
			.sequence = SESSION_TEXT,
			.end = sight_end(d, from + i) };
	return session_forward(d->session, &rows, e);
}

static int forward_block(struct denoising *d, uint32_t *from, struct err *e)
{
	*from = d->begin;
	return forward_from(d, *from, e);
}

static int forward_text(struct denoising *d, uint32_t *from, struct err *e)
{
	*from = 0;
	session_truncate(d->session, SESSION_TEXT, 0);
	return forward_from(d, *from, e);
}

/* What the last row of the pass behind us says, where it speaks of what is
 * behind it. */
static int keep_behind(
	struct denoising *d, uint32_t row, uint32_t at, struct err *e)
{
	return d->shift ? denoising_keep_behind(d, row, at, e) : 0;
}

static int keep_block(struct denoising *d, struct err *e)
{
	const uint32_t n = d->end - d->begin;
	uint32_t from;
	int ret = forward_block(d, &from, e);

	if (!ret)
		ret = keep_behind(d, n - 1, d->end, e);
	if (ret)
		return ret;
	session_count_valid(d->session, n);
	return session_accept(d->session, SESSION_TEXT, NULL, n, e);
}

static int read_prompt(struct denoising *d, struct err *e)
{
	size_t n;
	const int32_t *prompt = gen_tokens(d->gen, &n);
	uint32_t row;
	int ret = session_prefill(d->session, SESSION_TEXT, prompt, n, &row, e);

	return ret ? ret : keep_behind(d, row, (uint32_t)n, e);
}

static int fill_blocks(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	const bool kept = keeps(env);
	const struct denoising_pass pass = { kept ? forward_block
						  : forward_text };
	const struct steps_options *o = method_options(env, &steps_table);
	const struct denoising_rule rule = { .steps = o->steps,
		.threshold = denoising_threshold(env, -1) };
	const struct state *state = env->state;
	int ret = 0;

	while (!ret && !gen_done(d->gen)) {
		ret = kept ? 0 : denoising_check_room(d, e);
		if (ret)
			break;
		denoising_begin(d, state->length);
		ret = denoising_fill(d, &rule, &pass, e);
		if (!ret)
			denoising_append(d);
		if (!ret && kept && !gen_done(d->gen))
			ret = keep_block(d, e);
	}
	return ret;
}

static int block_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	const struct steps_options *o = method_options(env, &steps_table);
	uint32_t limit =
		keeps(env) ? session_context(s) : denoising_whole_limit(s);
	struct state *state = env->state;
	struct denoising d;
	int ret = denoising_init(&d, env, s, g, limit, e);

	d.guessing.order = (enum guess_order)o->order;
	d.arg = &state->length;
	if (!ret && keeps(env) && !gen_done(g))
		ret = read_prompt(&d, e);
	if (!ret)
		ret = fill_blocks(&d, env, e);
	denoising_release(&d);
	return ret;
}

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
	.run = block_run,
};
