#include "host/method/denoising.h"

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

/* clang-format off */
#define IN(field) OPT_IN(denoising_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "block", IN(length), "N",
		"positions a diffusion model fills at a time ({})",
		1, WIRE_MAX_ROWS },
	{ OPT_UINT, 0, "block-steps", IN(steps), "N",
		"passes it takes for a block at most (0: as many as the block "
		"has positions)", 0, WIRE_MAX_ROWS },
};
/* clang-format on */

const struct opt_table denoising_table = {
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults =
		&(const struct denoising_options){ .length = DENOISING_LENGTH },
	.size = sizeof(struct denoising_options),
};

const struct denoising_options *denoising_options(const struct method_env *env)
{
	return method_options(env, &denoising_table);
}

/* ---- a text -------------------------------------------------------------- */

struct guess {
	uint32_t at;
	int32_t token;
	double confidence; /* the token's probability, without noise */
};

static int check_sampling(
	const struct sampler_opts *o, const char *method, struct err *e)
{
	if (!o->top_k && o->top_p == 1 && o->min_p == 0 &&
		o->repeat_penalty == 1)
		return 0;
	return err_set(e, EINVAL,
		"the method %s draws from all tokens: --top-k, --top-p, "
		"--min-p and --repeat-penalty do not go with it",
		method);
}

int denoising_init(struct denoising *d, const char *method, struct session *s,
	struct generation *g, uint32_t limit, struct err *e)
{
	const struct model *m = session_model(s);

	*d = (struct denoising){
		.session = s,
		.gen = g,
		.sampling = gen_sampling(g),
		.n_vocab = m->n_vocab,
		.limit = limit,
		.mask = m->mask_token,
		.logits = gen_logits(g),
	};
	d->x = malloc(limit * sizeof(*d->x));
	d->guess = malloc(limit * sizeof(*d->guess));
	if (!d->x || !d->guess)
		return err_set(e, ENOMEM, "no memory for %u positions", limit);
	return check_sampling(d->sampling, method, e);
}

void denoising_release(struct denoising *d)
{
	free(d->x);
	free(d->guess);
}

void denoising_begin(struct denoising *d, uint32_t length)
{
	size_t n;
	const int32_t *text = gen_tokens(d->gen, &n);

	assert(length && n < d->limit);
	memcpy(d->x, text, n * sizeof(*text));
	d->begin = (uint32_t)n;
	d->end = d->begin +
		(length < d->limit - d->begin ? length : d->limit - d->begin);
	for (uint32_t i = d->begin; i < d->end; i++)
		d->x[i] = d->mask;
}

void denoising_append(struct denoising *d)
{
	for (uint32_t i = d->begin; i < d->end; i++)
		gen_append(d->gen, d->x[i]);
}

/* ---- a pass -------------------------------------------------------------- */

/*
 * What counts when the largest wins. With Gumbel noise, new in each pass, the
 * winner is a draw at this temperature.
 */
static double noisy_logit(
	const struct denoising *d, uint32_t at, uint32_t pass, uint32_t token)
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
static int32_t choose(const struct denoising *d, uint32_t at, uint32_t pass)
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

static double confidence(const struct denoising *d, int32_t token)
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

/* What is filled stays. */
static void tell_step(const struct denoising *d)
{
	uint8_t mark[WIRE_MAX_ROWS];
	const struct gen_step step = {
		.first = d->begin,
		.n = d->end - d->begin,
		.token = d->x + d->begin,
		.mark = mark,
	};

	if (!gen_is_watched(d->gen))
		return;
	for (uint32_t i = 0; i < step.n; i++)
		mark[i] = step.token[i] == d->mask ? GEN_MASK : GEN_STABLE;
	gen_step(d->gen, &step);
}

/* One pass: guess at every mask, keep the surest `keep`. */
static int denoise(struct denoising *d, uint32_t pass, uint32_t keep,
	const struct denoising_pass *how, struct err *e)
{
	uint32_t n = 0;
	int ret = how->forward(d, e);

	for (uint32_t at = d->begin; at < d->end && !ret; at++) {
		struct guess *g = &d->guess[n];

		if (d->x[at] != d->mask)
			continue;
		ret = how->logits(d, at, e);
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
	tell_step(d);
	return 0;
}

int denoising_fill(struct denoising *d, uint32_t steps,
	const struct denoising_pass *how, struct err *e)
{
	uint32_t masks = d->end - d->begin;
	int ret = 0;

	if (!steps || steps > masks)
		steps = masks;
	for (uint32_t i = 0; i < steps && !ret && !gen_done(d->gen); i++)
		ret = denoise(
			d, i, masks / steps + (i < masks % steps), how, e);
	return ret;
}
