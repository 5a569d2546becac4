#include "host/text/sampler.h"

#include "base/err.h"
#include "base/rng.h"
#include "tensor/softmax.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const struct sampler_opts sampler_defaults = {
	.temperature = 0,
	.top_k = 0,
	.top_p = 1,
	.min_p = 0,
	.repeat_penalty = 1,
	.repeat_last = 64,
	.seed = 1,
	.stream = 0,
};

/* largest bias of a token's logit, as in OpenAI's API */
#define BIAS_MOST 100.0f

struct candidate {
	float logit;
	int32_t id;
	double weight; /* proportional to the candidate's probability */
};

struct sampler {
	struct sampler_opts opts;
	uint32_t n_vocab;
	struct token_bias *bias; /* [opts.n_bias] */
	/* [n_vocab] logits after biases and penalties */
	float *logit;
	/* [n_vocab] one bit per token: whether the loop that applies a penalty
	 * has already met the token */
	uint64_t *seen;
	struct candidate *cand; /* [n] memory for n_vocab candidates */
	uint32_t n;             /* number of remaining candidates */
};

int sampler_open(struct sampler **out, const struct sampler_opts *opts,
	uint32_t n_vocab, struct err *e)
{
	size_t bias_bytes = opts->n_bias * sizeof(*opts->bias);
	struct sampler *s;

	if (!(opts->temperature >= 0) || !isfinite(opts->temperature))
		return err_set(e, EINVAL,
			"temperature is %g, must be 0 (greedy) or more",
			opts->temperature);
	if (!(opts->top_p > 0 && opts->top_p <= 1))
		return err_set(e, EINVAL,
			"top-p is %g, must be more than 0 and at most 1",
			opts->top_p);
	if (!(opts->min_p >= 0 && opts->min_p <= 1))
		return err_set(
			e, EINVAL, "min-p is %g, must be 0 to 1", opts->min_p);
	if (!(opts->repeat_penalty > 0) || !isfinite(opts->repeat_penalty))
		return err_set(e, EINVAL,
			"repetition penalty is %g, must be more than 0",
			opts->repeat_penalty);
	for (uint32_t i = 0; i < opts->n_bias; i++) {
		const struct token_bias *b = &opts->bias[i];

		if (b->id < 0 || (uint32_t)b->id >= n_vocab)
			return err_set(e, EINVAL,
				"the logit bias is for token %d, which is not "
				"in the vocabulary of %u tokens",
				b->id, n_vocab);
		if (!(b->bias >= -BIAS_MOST && b->bias <= BIAS_MOST))
			return err_set(e, EINVAL,
				"the logit bias of token %d is %g, must be -%g "
				"to %g",
				b->id, (double)b->bias, (double)BIAS_MOST,
				(double)BIAS_MOST);
	}

	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ENOMEM, "no memory for a sampler");
	s->opts = *opts;
	s->opts.bias = NULL;
	s->n_vocab = n_vocab;
	/* + 1, because malloc(0) may return NULL */
	s->bias = malloc(bias_bytes + 1);
	s->logit = malloc(n_vocab * sizeof(*s->logit));
	s->seen = malloc((n_vocab + 63) / 64 * sizeof(*s->seen));
	s->cand = malloc(n_vocab * sizeof(*s->cand));
	if (!s->bias || !s->logit || !s->seen || !s->cand) {
		sampler_close(s);
		return err_set(e, ENOMEM, "no memory to sample from %u tokens",
			n_vocab);
	}
	if (bias_bytes)
		memcpy(s->bias, opts->bias, bias_bytes);
	*out = s;
	return 0;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	free(s->bias);
	free(s->logit);
	free(s->seen);
	free(s->cand);
	free(s);
}

const struct sampler_opts *sampler_options(const struct sampler *s)
{
	return &s->opts;
}

/* Whether candidate a comes before candidate b: the larger logit first, of
 * equal logits the lower id. This order has no ties. */
static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static int compare(const void *a, const void *b)
{
	return before(a, b) ? -1 : before(b, a) ? 1 : 0;
}

/* Restore the heap property of the candidates from index `at` down. The top of
 * the heap is the least likely candidate. */
static void sift_down(struct candidate *heap, uint32_t n, uint32_t at)
{
	for (;;) {
		uint32_t child = 2 * at + 1;
		struct candidate t;

		if (child >= n)
			return;
		if (child + 1 < n && before(&heap[child], &heap[child + 1]))
			child++;
		if (!before(&heap[at], &heap[child]))
			return;
		t = heap[at];
		heap[at] = heap[child];
		heap[child] = t;
		at = child;
	}
}

/* Set the weights e^((logit - max) / temperature); returns their sum. */
static double weigh(struct sampler *s, double max, double temperature)
{
	struct softmax all = { max, temperature, 0 };

	for (uint32_t i = 0; i < s->n; i++)
		s->cand[i].weight = softmax_add(&all, (double)s->cand[i].logit);
	return all.sum;
}

/* Keep the candidates with at least this weight; their order stays the same. */
static void keep_weight(struct sampler *s, double least)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->cand[i].weight >= least)
			s->cand[n++] = s->cand[i];
	s->n = n;
}

/* Mark a token as seen. Returns whether it was not seen before. */
static bool see(struct sampler *s, uint32_t id)
{
	uint64_t bit = (uint64_t)1 << id % 64, *word = &s->seen[id / 64];
	bool first = !(*word & bit);

	*word |= bit;
	return first;
}

/* Apply biases and penalties to s->logit. */
static void adjust(struct sampler *s, const int32_t *history, size_t n_prompt,
	size_t n_history)
{
	const struct sampler_opts *o = &s->opts;
	float repeat = (float)o->repeat_penalty;
	float presence = (float)o->presence_penalty;
	float frequency = (float)o->frequency_penalty;
	size_t last = n_history < o->repeat_last ? n_history : o->repeat_last;
	size_t seen_bytes = (s->n_vocab + 63) / 64 * sizeof(*s->seen);

	for (uint32_t i = 0; i < o->n_bias; i++)
		s->logit[s->bias[i].id] += s->bias[i].bias;
	/*
	 * Make each recent token less likely (if repeat > 1). The penalty
	 * applies once, even if the token occurred several times (Keskar et
	 * al., "CTRL", 2019, section 4.1). A negative logit is multiplied,
	 * because dividing it would make the token more likely.
	 */
	if (repeat != 1 && last)
		memset(s->seen, 0, seen_bytes);
	for (size_t i = n_history - last; repeat != 1 && i < n_history; i++) {
		uint32_t id = (uint32_t)history[i];

		if (id >= s->n_vocab || !see(s, id))
			continue;
		if (s->logit[id] > 0)
			s->logit[id] /= repeat;
		else
			s->logit[id] *= repeat;
	}
	if (presence == 0 && frequency == 0)
		return;
	memset(s->seen, 0, seen_bytes);
	for (size_t i = n_prompt; i < n_history; i++) {
		uint32_t id = (uint32_t)history[i];

		if (id < s->n_vocab)
			s->logit[id] -= frequency + (see(s, id) ? presence : 0);
	}
}

int32_t sampler_draw_from(struct sampler *s, uint64_t stream,
	const float *logits, const int32_t *history, size_t n_prompt,
	size_t n_history, uint64_t position)
{
	const struct sampler_opts *o = &s->opts;
	uint32_t k = o->top_k, n = 0;
	double max, sum, rest, p = o->top_p, reached = 0;
	int32_t best = 0;

	memcpy(s->logit, logits, s->n_vocab * sizeof(*s->logit));
	adjust(s, history, n_prompt, n_history);
	/* Find the largest logit, with the lowest id among equal ones. A NaN is
	 * never chosen if there is another logit. */
	for (uint32_t i = 1; i < s->n_vocab; i++)
		if (s->logit[i] > s->logit[best] || isnan(s->logit[best]))
			best = (int32_t)i;
	max = s->logit[best];
	if (o->temperature == 0 || !isfinite(max))
		return best;

	s->n = 0;
	for (uint32_t i = 0; i < s->n_vocab; i++)
		if (!isnan(s->logit[i]))
			s->cand[s->n++] = (struct candidate){ s->logit[i],
				(int32_t)i, 0 };

	/* Move the k most likely candidates to the front with a heap, because
	 * sorting the whole vocabulary for each token would take too long. */
	if (k && k < s->n) {
		for (uint32_t i = k / 2; i-- > 0;)
			sift_down(s->cand, k, i);
		for (uint32_t i = k; i < s->n; i++) {
			if (!before(&s->cand[i], &s->cand[0]))
				continue;
			s->cand[0] = s->cand[i];
			sift_down(s->cand, k, 0);
		}
		s->n = k;
	}
	sum = weigh(s, max, 1);

	/*
	 * Keep the smallest set of most likely tokens whose probabilities reach
	 * p (Holtzman et al., "The curious case of neural text degeneration",
	 * 2020). Tokens whose probability is below (1 - p) / s->n cannot be in
	 * this set: the sum of such probabilities is less than 1 - p, so the
	 * other tokens reach p alone. Without these tokens the list is short
	 * enough to sort.
	 */
	if (p < 1) {
		/* Use half of (1 - p) / s->n, so that a rounding error in the
		 * sum cannot remove a token of the set. */
		keep_weight(s, (1 - p) * sum / s->n / 2);
		qsort(s->cand, s->n, sizeof(*s->cand), compare);
		while (n < s->n && reached < p * sum)
			reached += s->cand[n++].weight;
		s->n = n;
	}
	if (o->min_p > 0)
		/* The likeliest token has the weight 1, so each weight is the
		 * probability relative to that of the likeliest token. */
		keep_weight(s, o->min_p);
	sum = weigh(s, max, o->temperature);

	/* Draw from the cumulative distribution. If rounding errors leave a
	 * remainder, the last candidate with a positive weight is drawn. */
	rest = sum * rng_uniform(o->seed, stream, position);
	best = s->cand[0].id;
	for (uint32_t i = 0; i < s->n && !(rest < 0); i++) {
		if (!(s->cand[i].weight > 0))
			continue;
		best = s->cand[i].id;
		rest -= s->cand[i].weight;
	}
	return best;
}
