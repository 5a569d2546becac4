/*
 * Fast-dLLM (Wu et al., "Fast-dLLM: Training-free Acceleration of Diffusion LLM
 * by Enabling KV Cache and Parallel Decoding", 2025). The method has two parts.
 *
 * Parallel decoding: a pass commits (makes final) all guesses (predicted
 * tokens) whose confidence reaches the threshold, and always the most confident
 * guess.
 *
 * KV cache: the first pass over a block computes all positions. Later passes
 * over the block compute fewer positions. For the other positions, the later
 * passes use the keys and values that the first pass cached:
 *
 *   none    Every pass computes all positions.
 *   prefix  Positions before the block are cached. A pass computes the block
 *           and the masks after it.
 *   dual    The masks after the block are cached too. A pass computes only
 *           the block.
 *   delayed A position is cached only after its token is final, and one pass
 *           late, when its keys and values are those of the token and not of
 *           the mask. A pass computes all masks, and the tokens that the pass
 *           before made final (Ma et al., "dKV-Cache: The Cache for Diffusion
 *           Language Models", 2025, variant dKV-Cache-Decode).
 *
 * With shifted logits (a row predicts the token of the next position) the first
 * token of a block is committed in the first pass, because later passes have no
 * row that predicts it (except with `delayed`).
 */
#include "base/err.h"
#include "host/method/methods.h"
#include "host/scheduler/denoising.h"
#include "host/session/session.h"

#include <errno.h>
#include <stdlib.h>

#define THRESHOLD 0.9 /* the threshold in section 4.1 of the paper */

enum caching { CACHE_NONE, CACHE_PREFIX, CACHE_DUAL, CACHE_DELAYED };
static const char *const cachings[] = { "none", "prefix", "dual", "delayed",
	NULL };

struct fast_options {
	int cache;
	double factor; /* 0 means that --threshold decides */
};

/* clang-format off */
#define IN(field) OPT_IN(fast_options, field)
static const struct opt option_rows[] = {
	{ OPT_CHOICE, 0, "cache", IN(cache), NULL,
		"method fast-dllm: positions whose keys and values the first "
		"pass over a block computes and its later passes reuse ({}); "
		"prefix: those before the block; dual: also those after it; "
		"delayed: those of final tokens",
		.choices = cachings },
	{ OPT_FLOAT, 0, "factor", IN(factor), "F",
		"method fast-dllm: instead of --threshold: make the k most "
		"probable guesses (predicted tokens) final, with the largest k "
		"such that the k-th probability is at least 1 - F/(k+1) (0: "
		"off)", 0, 100 },
};
/* clang-format on */

static const struct opt_table fast_table = OPT_TABLE_INIT(
	"diffusion", option_rows, fast_options, .cache = CACHE_PREFIX);

static const struct opt_table *const options[] = { &block_table, &canvas_table,
	&threshold_table, &refresh_table, &fast_table, NULL };

struct text {
	bool whole; /* whether the current pass computes all positions */
	/* [limit] the tokens and masks from which the keys and values of the
	 * positions were computed last */
	int32_t *computed;
};

static int fast_start(struct denoising *d, struct err *e)
{
	uint32_t limit = denoising_whole_limit(d->session);
	struct text *t = d->own;

	t->computed = malloc((limit + 1) * sizeof(*t->computed));
	if (!t->computed)
		return err_set(e, ENOMEM,
			"no memory for the %u positions of a diffusion text",
			limit);
	return denoising_reserve(d, limit, e);
}

static void fast_finish(struct denoising *d)
{
	struct text *t = d->own;

	free(t->computed);
}

/* Plan rows for the positions whose keys and values must not be reused: all
 * masks, and tokens that replaced a mask since their keys and values were
 * computed. With shifted logits, the row that predicts a mask precedes it. */
static void delayed_rows(struct denoising *d, const struct text *t)
{
	denoising_rows(d, VISIBILITY_WINDOW, 0, 0);
	for (uint32_t i = 0; i < d->last; i++) {
		bool predicts = i + 1 < d->last && d->x[i + 1] == d->mask;

		if (d->x[i] == d->mask || d->x[i] != t->computed[i] ||
			(d->shift && predicts))
			d->row[d->n_rows++] =
				(struct row){ .token = d->x[i], .position = i };
	}
}

static int fast_plan(struct denoising *d, struct err *e)
{
	const struct fast_options *o = method_options(d->env, &fast_table);
	const struct refresh_options *refresh =
		method_options(d->env, &refresh_table);
	struct text *t = d->own;
	int ret = denoising_next_block(d, denoising_length(d->env), e);

	if (ret)
		return ret;
	denoising_lay_canvas(d);
	t->whole = !d->pass || o->cache == CACHE_NONE ||
		(refresh->every && d->pass % refresh->every == 0);
	if (t->whole)
		denoising_whole_pass(d);
	else if (o->cache == CACHE_DELAYED)
		delayed_rows(d, t);
	else
		denoising_rows(d, VISIBILITY_WINDOW, d->begin,
			o->cache == CACHE_DUAL ? d->end : d->last);
	denoising_predict_masks(d, d->begin, d->end);
	for (uint32_t i = 0; i < d->n_rows; i++)
		t->computed[d->row[i].position] = d->row[i].token;
	return 0;
}

static int fast_after_pass(struct denoising *d, struct err *e)
{
	const struct fast_options *o = method_options(d->env, &fast_table);
	const struct text *t = d->own;
	bool caches = t->whole && o->cache != CACHE_NONE;
	uint32_t kept, cached = o->cache == CACHE_PREFIX ? d->begin : d->last;
	int ret;

	kept = o->factor > 0 ? guesses_by_factor(d->guess, d->n_at, o->factor)
			     : guesses_over(d->guess, d->n_at,
				       denoising_threshold(d->env, THRESHOLD));
	/* With shifted logits, commit the block's first position now: no later
	 * pass can predict it (see the top of this file). */
	for (uint32_t i = kept;
		caches && d->shift && o->cache != CACHE_DELAYED && i < d->n_at;
		i++)
		if (d->guess[i].at == d->begin) {
			guesses_exchange(d->guess, kept++, i);
			break;
		}
	denoising_commit(d, kept);
	denoising_report(d, d->end);
	d->pass++;
	ret = caches ? session_accept(d->session, d->sequence, NULL, cached, e)
		     : 0;
	if (!ret)
		denoising_end_block(d);
	return ret;
}

static const struct denoising_steps steps = {
	.start = fast_start,
	.plan = fast_plan,
	.after_pass = fast_after_pass,
	.finish = fast_finish,
};

const struct method method_fast_dllm = {
	.name = "fast-dllm",
	.summary = "masked diffusion, many tokens per pass, with a block cache",
	.diffusion = true,
	.runs = METHOD_WINDOW,
	.options = options,
	.decode_rows = denoising_all_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
