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
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/session/session.h"

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

struct text {
	bool whole; /* the pass computes all positions */
};

static int fast_start(struct denoising *d, struct err *e)
{
	return denoising_reserve(d, denoising_whole_limit(d->session), e);
}

static int fast_plan(struct denoising *d, struct err *e)
{
	const struct fast_options *o = method_options(d->env, &fast_table);
	struct text *t = d->own;
	int ret = denoising_next_block(d, denoising_length(d->env), e);

	if (ret)
		return ret;
	denoising_lay_canvas(d);
	t->whole = !d->pass || o->cache == CACHE_NONE;
	if (t->whole)
		denoising_whole_pass(d);
	else
		denoising_rows(d, VISIBILITY_WINDOW, d->begin,
			o->cache == CACHE_DUAL ? d->end : d->last);
	denoising_ask(d, d->begin, d->end);
	return 0;
}

/* The guess of the block's first position stays as well. */
static uint32_t choose_first(const struct denoising *d, uint32_t stay)
{
	for (uint32_t i = stay; i < d->n_at; i++)
		if (d->guess[i].at == d->begin) {
			const struct guess other = d->guess[stay];

			d->guess[stay] = d->guess[i];
			d->guess[i] = other;
			return stay + 1;
		}
	return stay;
}

static int fast_took(struct denoising *d, struct err *e)
{
	const struct fast_options *o = method_options(d->env, &fast_table);
	const struct text *t = d->own;
	bool keeps = t->whole && o->cache != CACHE_NONE;
	uint32_t stay, cached = o->cache == CACHE_DUAL ? d->last : d->begin;
	int ret;

	guesses_by_confidence(d->guess, d->n_at);
	stay = o->factor > 0 ? guesses_by_factor(d->guess, d->n_at, o->factor)
			     : guesses_over(d->guess, d->n_at,
				       denoising_threshold(d->env, THRESHOLD));
	if (keeps && d->shift)
		stay = choose_first(d, stay);
	denoising_take(d, stay);
	denoising_report(d, d->begin, d->end);
	d->pass++;
	ret = keeps ? denoising_accept(d, cached, e) : 0;
	if (!ret)
		denoising_end_block(d);
	return ret;
}

static const struct denoising_steps steps = {
	.start = fast_start,
	.plan = fast_plan,
	.took = fast_took,
};

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
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
