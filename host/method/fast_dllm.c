/*
 * Fast-dLLM (Wu et al., "Fast-dLLM: Training-free Acceleration of Diffusion LLM
 * by Enabling KV Cache and Parallel Decoding", 2025): all guesses that are sure
 * enough stay, the surest in any case; and between two blocks, keys and values
 * of what is not computed are those of the block's first pass, which computes
 * everything:
 *
 *   none    every pass computes all positions
 *   prefix  what is before the block is cached; a pass computes the block and
 *           the masks behind it
 *   dual    those masks are cached too; a pass computes the block alone
 *
 * Where rows speak of the next position, the block's first token is decided in
 * its first pass, for later ones have no row that speaks of it.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#define THRESHOLD 0.9 /* section 4.1 */

enum caching { CACHE_NONE, CACHE_PREFIX, CACHE_DUAL };
static const char *const cachings[] = { "none", "prefix", "dual", NULL };

struct fast_options {
	int cache;
	double factor; /* 0: by the threshold */
};

/* clang-format off */
#define IN(field) OPT_IN(fast_options, field)
static const struct opt option_rows[] = {
	{ OPT_CHOICE, 0, "cache", IN(cache), NULL,
		"fast-dllm: what later passes over a block reuse ({}); "
		"prefix: what is before the block; dual: also what is after "
		"it",
		.choices = cachings },
	{ OPT_FLOAT, 0, "factor", IN(factor), "F",
		"fast-dllm: fix the k most probable guesses while the k-th "
		"has at least 1 - F/(k+1), instead of --threshold (0: off)", 0, 100 },
};
/* clang-format on */

static const struct opt_table fast_table = {
	.heading = "diffusion",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct fast_options){ .cache = CACHE_PREFIX },
	.size = sizeof(struct fast_options),
};

static const struct opt_table *const options[] = { &block_table, &canvas_table,
	&threshold_table, &fast_table, NULL };

/* Of the guesses by confidence; those that stay come first. */
static uint32_t choose(
	struct denoising *d, const struct method_env *env, uint32_t n)
{
	const struct fast_options *o = method_options(env, &fast_table);

	guesses_by_confidence(d->guess, n);
	if (o->factor > 0)
		return guesses_by_factor(d->guess, n, o->factor);
	return guesses_over(d->guess, n, denoising_threshold(env, THRESHOLD));
}

/* The guess of the block's first position stays as well. */
static uint32_t choose_first(
	const struct denoising *d, uint32_t stay, uint32_t n)
{
	for (uint32_t i = stay; i < n; i++)
		if (d->guess[i].at == d->begin) {
			const struct guess other = d->guess[stay];

			d->guess[stay] = d->guess[i];
			d->guess[i] = other;
			return stay + 1;
		}
	return stay;
}

static int keep(struct denoising *d, enum caching cache, struct err *e)
{
	if (cache == CACHE_NONE)
		return 0;
	return session_accept(d->session, SESSION_TEXT, NULL,
		cache == CACHE_DUAL ? d->last : d->begin, e);
}

static int take_pass(struct denoising *d, const struct method_env *env,
	uint32_t pass, uint32_t masks, struct err *e)
{
	const struct fast_options *o = method_options(env, &fast_table);
	enum caching cache = (enum caching)o->cache;
	bool whole = !pass || cache == CACHE_NONE;
	uint32_t from = d->begin, stay;
	int ret;

	if (whole)
		ret = denoising_whole_pass(d, &from, e);
	else
		ret = denoising_window_pass(
			d, from, cache == CACHE_DUAL ? d->end : d->last, e);
	if (!ret)
		ret = denoising_guess(d, from, d->at, masks, pass, e);
	if (ret)
		return ret;
	stay = choose(d, env, masks);
	if (whole && d->shift && cache != CACHE_NONE)
		stay = choose_first(d, stay, masks);
	denoising_take(d, stay);
	denoising_tell(d, d->begin, d->end);
	return whole ? keep(d, cache, e) : 0;
}

static int fill_block(
	struct denoising *d, const struct method_env *env, struct err *e)
{
	uint32_t pass = 0, masks;
	int ret = denoising_check_room(d, e);

	if (ret)
		return ret;
	denoising_begin(d, denoising_length(env));
	denoising_lay_canvas(d, env);
	while (!ret && !gen_done(d->gen) &&
		(masks = denoising_masks(d, d->begin, d->end, d->at)))
		ret = take_pass(d, env, pass++, masks, e);
	if (!ret)
		denoising_append(d);
	return ret;
}

static int fast_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct denoising d;
	int ret = denoising_init(&d, env, s, g, denoising_whole_limit(s), e);

	while (!ret && !gen_done(g))
		ret = fill_block(&d, env, e);
	denoising_release(&d);
	return ret;
}

static uint32_t fast_rows(const struct method_env *env)
{
	return WIRE_MAX_ROWS;
}

const struct method method_fast_dllm = {
	.name = "fast-dllm",
	.summary =
		"masked diffusion, parallel by confidence, with a block cache",
	.diffusion = true,
	.runs = METHOD_WINDOW,
	.options = options,
	.decode_rows = fast_rows,
	.run = fast_run,
};
