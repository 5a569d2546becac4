#include "host/text/likely.h"

#include "tensor/softmax_sum.h"

#include <assert.h>
#include <math.h>

unsigned likely_of(const float *logits, uint32_t n_vocab, int32_t token,
	unsigned most, struct likely top[LIKELY_TOP], float *logprob)
{
	/* Find at least one token, even if most == 0, because the sum below
	 * needs the largest logit. */
	unsigned n = 0, room = most ? most : 1;
	double sum;

	assert(most <= LIKELY_TOP);
	for (uint32_t i = 0; i < n_vocab; i++) {
		unsigned at;

		if (n == room && !(logits[i] > top[n - 1].logprob))
			continue;
		at = n < room ? n++ : room - 1;
		for (; at && top[at - 1].logprob < logits[i]; at--)
			top[at] = top[at - 1];
		top[at] = (struct likely){ (int32_t)i, logits[i] };
	}
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
