/*
 * Masked diffusion as LLaDA's reference decoder does it (Nie et al., "Large
 * Language Diffusion Models", 2025; semi-autoregressive, low-confidence
 * remasking). The text grows by blocks of masks. A pass computes all
 * positions, which see one another both ways, and says for each mask of the
 * block what would stand there; the surest of these guesses stay for good,
 * the others are masks again. Nothing is kept from pass to pass: no keys, no
 * values.
 *
 * Two things are ours. Masks of later blocks are not there, so that neither
 * the cost of a pass nor what it computes depends on how long a text may
 * become. And the mask itself is never guessed: probabilities are those of
 * the other tokens.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "tensor/softmax.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct llada_options {
	uint32_t length; /* of a block, in positions */
	uint32_t steps;  /* passes it takes at most; 0: one each */
};

/* clang-format off */
#define IN(field) OPT_IN(llada_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "block", IN(length), "N",
		"positions a diffusion model fills at a time ({})",
		1, WIRE_MAX_ROWS },
	{ OPT_UINT, 0, "block-steps", IN(steps), "N",
		"passes it takes for a block at most (0: as many as the block "
		"has positions)", 0, WIRE_MAX_ROWS },
};
/* clang-format on */

static const struct opt_table table = {
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct llada_options){ .length = 32 },
	.size = sizeof(struct llada_options),
};

static const struct opt_table *const options[] = { &table, NULL };

struct guess {
	uint32_t at;
	int32_t token;
	double confidence; /* the token's probability, without noise */
};

struct decoding {
	struct session *session;
	const struct sampler_opts *sampling;
	uint32_t n_vocab, limit; /* limit: positions there may be */
	uint32_t trained;        /* for so many */
	int32_t mask;
	float *logits;
	int32_t *x;          /* [limit] the text, with masks */
	struct guess *guess; /* [limit] */
	uint32_t begin, end; /* of the block, which ends the text */
};

/*
 * What counts when the largest wins. With Gumbel noise, new in each pass, the
 * winner is a draw at this temperature.
 */
static double noisy_logit(
	const struct decoding *d, uint32_t at, uint32_t pass, uint32_t token)
{
	const struct sampler_opts *o = d->sampling;
	uint64_t counter = (uint64_t)at << 34 | (uint64_t)pass << 24 | token;
	double logit = (double)d->logits[token];

	if (o->temperature == 0)
		return logit;
	return logit -
		o->temperature *
		log(-log(rng_uniform(o->seed, o->stream, counter)));
}

/* The lowest id among equals; NaN never wins. */
static int32_t choose(const struct decoding *d, uint32_t at, uint32_t pass)
{
	int32_t best = -1;
	double most = 0;

	for (uint32_t v = 0; v < d->n_vocab; v++) {
		double logit;

		if ((int32_t)v == d->mask)
			continue;
		logit = noisy_logit(d, at, pass, v);
		if (best < 0 || logit > most || isnan(most)) {
			best = (int32_t)v;
			most = logit;
		}
	}
	return best;
}

static double confidence(const struct decoding *d, int32_t token)
{
	struct softmax all = { .most = -INFINITY, .temperature = 1 };
	double p;

	for (uint32_t v = 0; v < d->n_vocab; v++)
		if ((int32_t)v != d->mask && (double)d->logits[v] > all.most)
			all.most = (double)d->logits[v];
	for (uint32_t v = 0; v < d->n_vocab; v++)
		if ((int32_t)v != d->mask)
			softmax_add(&all, (double)d->logits[v]);
	p = softmax_of(&all, (double)d->logits[token]);
	return p > 0 ? p : 0; /* logits that are no numbers say nothing */
}

static int surest_first(const void *pa, const void *pb)
{
	const struct guess *a = pa, *b = pb;

	if (a->confidence != b->confidence)
		return a->confidence > b->confidence ? -1 : 1;
	return a->at < b->at ? -1 : 1;
}

/* One pass: guess at every mask, keep the surest `keep`. */
static int denoise(
	struct decoding *d, uint32_t pass, uint32_t keep, struct err *e)
{
	uint32_t n = 0;
	int ret = session_continue(d->session, SESSION_TEXT, d->x, d->end, e);

	for (uint32_t at = d->begin; at < d->end && !ret; at++) {
		struct guess *g = &d->guess[n];

		if (d->x[at] != d->mask)
			continue;
		ret = session_logits(d->session, at, d->logits, e);
		if (ret)
			break;
		g->at = at;
		g->token = choose(d, at, pass);
		g->confidence = confidence(d, g->token);
		n++;
	}
	if (ret)
		return ret;
	qsort(d->guess, n, sizeof(*d->guess), surest_first);
	session_count_valid(d->session, keep);
	for (uint32_t i = 0; i < keep; i++)
		d->x[d->guess[i].at] = d->guess[i].token;
	return 0;
}

/* Passes share the masks out evenly; the first ones take what is left over. */
static int fill_block(struct decoding *d, uint32_t passes, struct err *e)
{
	uint32_t masks = d->end - d->begin;
	int ret = 0;

	if (!passes || passes > masks)
		passes = masks;
	for (uint32_t i = 0; i < passes && !ret; i++)
		ret = denoise(d, i, masks / passes + (i < masks % passes), e);
	return ret;
}

/* Masks behind the text so far: a block of them, or what there is room for. */
static int begin_block(struct decoding *d, const struct generation *g,
	uint32_t length, struct err *e)
{
	size_t n;
	const int32_t *text = gen_tokens(g, &n);

	if (n >= d->limit)
		return err_set(e, ENOSPC,
			"a pass of a diffusion model computes all positions at "
			"once, here %u at most, and the text has %zu; try a "
			"shorter prompt%s",
			d->limit, n,
			n < d->trained ? " or a larger --ctx" : "");
	memcpy(d->x, text, n * sizeof(*text));
	d->begin = (uint32_t)n;
	d->end = d->begin +
		(length < d->limit - d->begin ? length : d->limit - d->begin);
	for (uint32_t i = d->begin; i < d->end; i++)
		d->x[i] = d->mask;
	return 0;
}

static int check_sampling(const struct sampler_opts *o, struct err *e)
{
	if (!o->top_k && o->top_p == 1 && o->min_p == 0 &&
		o->repeat_penalty == 1)
		return 0;
	return err_set(e, EINVAL,
		"the method llada draws from all tokens: --top-k, --top-p, "
		"--min-p and --repeat-penalty do not go with it");
}

static int decoding_init(struct decoding *d, struct session *s,
	struct generation *g, struct err *e)
{
	const struct model *m = session_model(s);
	uint32_t context = session_context(s), rows = session_max_rows(s);

	*d = (struct decoding){
		.session = s,
		.sampling = gen_sampling(g),
		.n_vocab = m->n_vocab,
		.limit = rows < context ? rows : context,
		.trained = m->n_ctx,
		.mask = m->mask_token,
		.logits = gen_logits(g),
	};
	d->x = malloc(d->limit * sizeof(*d->x));
	d->guess = malloc(d->limit * sizeof(*d->guess));
	if (!d->x || !d->guess)
		return err_set(
			e, ENOMEM, "no memory for %u positions", d->limit);
	return check_sampling(d->sampling, e);
}

static int llada_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	const struct llada_options *o = method_options(env, &table);
	struct decoding d;
	int ret = decoding_init(&d, s, g, e);

	assert(o->length);
	while (!ret && !gen_done(g)) {
		ret = begin_block(&d, g, o->length, e);
		if (!ret)
			ret = fill_block(&d, o->steps, e);
		/* What ends the text ends it here: the rest is dropped. */
		for (uint32_t i = d.begin; i < d.end && !ret; i++)
			gen_append(g, d.x[i]);
	}
	free(d.x);
	free(d.guess);
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
	.options = options,
	.decode_rows = llada_rows,
	.run = llada_run,
};
