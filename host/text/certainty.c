#include "host/text/certainty.h"

#include "tensor/softmax_sum.h"

#include <assert.h>
#include <math.h>

void certainty_of(struct certainty *c, const float *logits, uint32_t n_vocab,
	int32_t token, unsigned top)
{
	/* the `top` largest logits so far, in descending order, and the least
	 * of them (-INFINITY while there are fewer than `top`) */
	float largest[CERTAINTY_TOP], least = -INFINITY;
	unsigned n = 0;
	/* Use double: the mean over a large vocabulary would be inexact in
	 * float. */
	double sum = 0, lse, total = 0;

	assert(top && top <= CERTAINTY_TOP);
	*c = (struct certainty){ 0 };
	for (uint32_t i = 0; i < n_vocab; i++) {
		unsigned at;

		sum += (double)logits[i];
		if (!(logits[i] > least))
			continue;
		at = n < top ? n++ : top - 1;
		for (; at && largest[at - 1] < logits[i]; at--)
			largest[at] = largest[at - 1];
		largest[at] = logits[i];
		if (n == top)
			least = largest[top - 1];
	}
	if (!n || !isfinite(sum) || token < 0 || (uint32_t)token >= n_vocab)
		return;
	for (unsigned i = 0; i < n; i++)
		total += (double)largest[i];
	lse = (double)largest[0] +
		log(softmax_sum(logits, n_vocab, largest[0], 1));
	c->logprob = (double)logits[token] - lse;
	c->self = lse - sum / n_vocab - log(n_vocab);
	c->confidence = lse - total / n;
}
