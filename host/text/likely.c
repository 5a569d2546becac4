#include "host/text/likely.h"

#include "tensor/softmax_sum.h"

#include <assert.h>
#include <math.h>

static void insert(struct likely *top, unsigned n, int32_t id, float logit)
{
	for (; n && top[n - 1].logprob < logit; n--)
		top[n] = top[n - 1];
	top[n] = (struct likely){ id, logit };
}

/* By their logits; one is found even where none is wanted, for the sum. */
static unsigned find(const float *logits, uint32_t n_vocab, unsigned most,
	struct likely *top)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < n_vocab; i++) {
		if (n == most && !(logits[i] > top[n - 1].logprob))
			continue;
		n -= n == most;
		insert(top, n++, (int32_t)i, logits[i]);
	}
	return n;
}

unsigned likely_of(const float *logits, uint32_t n_vocab, int32_t token,
	unsigned most, struct likely top[LIKELY_TOP], float *logprob)
{
	unsigned n = find(logits, n_vocab, most ? most : 1, top);
	double sum;

	assert(most <= LIKELY_TOP);
	*logprob = NAN;
	if (!n || !isfinite(top[0].logprob) || token < 0 ||
		(uint32_t)token >= n_vocab)
		return 0;
	sum = (double)top[0].logprob +
		log(softmax_sum(logits, n_vocab, top[0].logprob, 1));
	*logprob = (float)((double)logits[token] - sum);
	for (unsigned i = 0; i < n; i++)
		top[i].logprob = (float)((double)top[i].logprob - sum);
	return most ? n : 0;
}
