/*
 * LLaDA's reference decoder as its authors describe it: plain code in double
 * precision, with noise in the form exp(l) / (-ln u)^T for a logit l, a random
 * number u and the temperature T. The test supplies the logits of a whole
 * sequence in each pass. The decoder shares no code with the program; it uses
 * only the same random numbers u, drawn with the same counters.
 */
#ifndef TESTS_HOST_METHOD_NAIVE_LLADA_H
#define TESTS_HOST_METHOD_NAIVE_LLADA_H

#include "base/rng.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define NAIVE_BLOCK_MAX 256

struct naive {
	/* Writes the logits of all n positions to out: [n][n_vocab]. */
	void (*logits)(void *arg, const int32_t *x, unsigned n, double *out);
	void *arg;
	unsigned n_vocab, block, steps;
	/* 1 if a row predicts the position after its own, else 0 */
	unsigned shift;
	int32_t mask;
	double temperature;
	uint64_t seed, stream;
	/* The smallest margin of any choice. The margin between tokens is a
	 * difference of logits; the margin between positions is a difference of
	 * log-odds of their confidences. An error in the logits changes
	 * log-odds by no more than the error itself. */
	double margin;
};

static inline void naive_margin(struct naive *v, double by)
{
	if (by < v->margin)
		v->margin = by;
}

static inline double naive_odds(double p)
{
	return log(p) - log1p(-p);
}

/* Returns the token x0 for a position and sets *confidence to its probability
 * without noise. */
static inline int32_t naive_choose(struct naive *v, const double *l,
	unsigned at, unsigned step, double *confidence)
{
	double best = -1, second = -1, sum = 0;
	int32_t x0 = -1;

	for (unsigned t = 0; t < v->n_vocab; t++) {
		uint64_t counter = ((uint64_t)at * 1024 + step) * 16777216 + t;
		double g = exp(l[t]);

		if ((int32_t)t == v->mask)
			continue;
		sum += g;
		if (v->temperature > 0)
			g /= pow(-log(rng_uniform(v->seed, v->stream, counter)),
				v->temperature);
		if (g > best) {
			second = best;
			best = g;
			x0 = (int32_t)t;
		} else if (g > second) {
			second = g;
		}
	}
	naive_margin(v, log(best) - log(second));
	*confidence = exp(l[x0]) / sum;
	return x0;
}

static inline void naive_step(struct naive *v, int32_t *x, unsigned begin,
	unsigned end, unsigned step, unsigned keep)
{
	double *l = malloc(end * v->n_vocab * sizeof(*l));
	double confidence[NAIVE_BLOCK_MAX], taken = INFINITY, left = -1;
	int32_t x0[NAIVE_BLOCK_MAX];

	v->logits(v->arg, x, end, l);
	for (unsigned i = begin; i < end; i++) {
		confidence[i - begin] = -INFINITY;
		if (x[i] == v->mask)
			x0[i - begin] =
				naive_choose(v, l + (i - v->shift) * v->n_vocab,
					i, step, &confidence[i - begin]);
	}
	while (keep--) {
		unsigned best = 0;

		for (unsigned i = 1; i < end - begin; i++)
			if (confidence[i] > confidence[best])
				best = i;
		x[begin + best] = x0[best];
		taken = confidence[best];
		confidence[best] = -INFINITY;
	}
	for (unsigned i = 0; i < end - begin; i++)
		left = fmax(left, confidence[i]);
	if (left >= 0)
		naive_margin(
			v, left < 1 ? naive_odds(taken) - naive_odds(left) : 0);
	free(l);
}

/* Whether all tokens are known from position `at` to the end of the text, which
 * is at `limit` or after the first token `eos`. If so, sets *n to the end of
 * the text. */
static inline int naive_ended(const struct naive *v, const int32_t *x,
	unsigned at, unsigned end, unsigned limit, int32_t eos, unsigned *n)
{
	while (at < end && at < limit && x[at] != v->mask && x[at] != eos)
		at++;
	if (at < limit && (at == end || x[at] != eos))
		return 0;
	*n = at < limit ? at + 1 : limit;
	return 1;
}

/* x has *n tokens of the prompt and becomes the text. The text ends at `limit`
 * tokens or with the token `eos`, which is included, as soon as all tokens
 * before the end are known; a block that exceeds `context` is shortened.
 * Returns the number of passes. */
static inline unsigned naive_decode(struct naive *v, int32_t *x, unsigned *n,
	unsigned limit, unsigned context, int32_t eos)
{
	unsigned passes = 0;

	v->margin = INFINITY;
	while (*n < limit) {
		unsigned begin = *n, end = begin + v->block;
		unsigned masks, steps;

		end = end > context ? context : end;
		masks = end - begin;
		steps = !v->steps || v->steps > masks ? masks : v->steps;
		for (unsigned i = begin; i < end; i++)
			x[i] = v->mask;
		for (unsigned i = 0; i < steps; i++) {
			naive_step(v, x, begin, end, i,
				masks / steps + (i < masks % steps ? 1 : 0));
			passes++;
			if (naive_ended(v, x, begin, end, limit, eos, n))
				return passes;
		}
		*n = end;
	}
	return passes;
}

#endif
