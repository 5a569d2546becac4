#include "host/scheduler/guesses.h"

#include "base/rng.h"
#include "host/text/sampler.h"
#include "tensor/softmax.h"

#include <math.h>
#include <stdlib.h>

const char *const guess_orders[] = { "confidence", "margin", "entropy",
	"random", NULL };

/* ---- making a guess ------------------------------------------------------ */

/*
 * A uniform random number for position `at` in pass number `pass` of its block.
 * Each position and pass has n_vocab + 1 independent numbers: one for each
 * token (`which` is the token's id) and one for the position as a whole
 * (`which` = n_vocab).
 */
static double noise(
	const struct guessing *g, uint32_t at, uint32_t pass, uint32_t which)
{
	uint64_t counter = (uint64_t)at << 34 | (uint64_t)pass << 24 | which;

	return rng_uniform(g->sampling->seed, g->sampling->stream, counter);
}

/*
 * Choose the token with the largest logit; among equal logits, the lowest token
 * id. A NaN is chosen only if all logits are NaN. At a temperature t other than
 * 0, Gumbel noise times t is added to the logits: the token with the largest
 * sum is then a draw from the softmax of the logits divided by t.
 */
static int32_t choose(const struct guessing *g, const float *logits,
	uint32_t at, uint32_t pass)
{
	double t = g->sampling->temperature, most = 0;
	int32_t best = -1;

	for (uint32_t v = 0; v < g->n_vocab; v++) {
		double logit = (double)logits[v];

		if ((int32_t)v == g->mask)
			continue;
		if (t != 0)
			logit -= t * log(-log(noise(g, at, pass, v)));
		if (best < 0 || logit > most || isnan(most)) {
			best = (int32_t)v;
			most = logit;
		}
	}
	return best;
}

static double margin(const struct guessing *g, const float *logits,
	const struct softmax *all)
{
	double first = -INFINITY, second = -INFINITY;

	for (uint32_t v = 0; v < g->n_vocab; v++) {
		double logit = (double)logits[v];

		if ((int32_t)v == g->mask)
			continue;
		if (logit > first) {
			second = first;
			first = logit;
		} else if (logit > second) {
			second = logit;
		}
	}
	return softmax_of(all, first) - softmax_of(all, second);
}

/* The score, or `otherwise` if the score is NaN. */
static double number(double score, double otherwise)
{
	return isnan(score) ? otherwise : score;
}

void guess_from(const struct guessing *g, const float *logits, uint32_t at,
	uint32_t pass, struct guess *out)
{
	double t = g->sampling->temperature, p;
	struct softmax all = { .most = -INFINITY,
		.temperature = g->tempered && t > 0 ? t : 1 };

	for (uint32_t v = 0; v < g->n_vocab; v++)
		if ((int32_t)v != g->mask && (double)logits[v] > all.most)
			all.most = (double)logits[v];
	for (uint32_t v = 0; v < g->n_vocab; v++)
		if ((int32_t)v != g->mask)
			softmax_add(&all, (double)logits[v]);
	out->at = at;
	out->token = choose(g, logits, at, pass);
	p = softmax_of(&all, (double)logits[out->token]);
	out->confidence = out->score = p > 0 ? p : 0;
	if (g->order == ORDER_MARGIN) {
		out->score = number(margin(g, logits, &all), 0);
	} else if (g->order == ORDER_ENTROPY) {
		double sum = 0; /* negative entropy */

		for (uint32_t v = 0; v < g->n_vocab; v++) {
			p = softmax_of(&all, (double)logits[v]);
			if ((int32_t)v != g->mask && p > 0)
				sum += p * log(p);
		}
		out->score = number(sum, -INFINITY);
	} else if (g->order == ORDER_RANDOM) {
		out->score = noise(g, at, pass, g->n_vocab);
	}
}

/* ---- choosing which guesses to keep -------------------------------------- */

static int order(double a, uint32_t at_a, double b, uint32_t at_b)
{
	if (a != b)
		return a > b ? -1 : 1;
	return at_a < at_b ? -1 : 1;
}

static int score_order(const void *pa, const void *pb)
{
	const struct guess *a = pa, *b = pb;

	return order(a->score, a->at, b->score, b->at);
}

static int confidence_order(const void *pa, const void *pb)
{
	const struct guess *a = pa, *b = pb;

	return order(a->confidence, a->at, b->confidence, b->at);
}

void guesses_sort(struct guess *g, uint32_t n)
{
	qsort(g, n, sizeof(*g), score_order);
}

uint32_t guesses_over(struct guess *g, uint32_t n, double threshold)
{
	uint32_t kept = 1;

	qsort(g, n, sizeof(*g), confidence_order);

	while (kept < n && g[kept].confidence >= threshold)
		kept++;
	return kept;
}

uint32_t guesses_by_factor(struct guess *g, uint32_t n, double factor)
{
	uint32_t kept = 1;

	qsort(g, n, sizeof(*g), confidence_order);

	while (kept < n && g[kept].confidence >= 1 - factor / (kept + 2))
		kept++;
	return kept;
}
