#include "host/text/certainty.h"

#include "tensor/softmax_sum.h"

#include <assert.h>
#include <math.h>

/* The largest so far, descending. */
struct largest {
	float value[CERTAINTY_TOP];
	unsigned n, room;
};

static void insert(struct largest *l, float v)
{
	unsigned at = l->n < l->room ? l->n++ : l->room - 1;

	for (; at && l->value[at - 1] < v; at--)
		l->value[at] = l->value[at - 1];
	l->value[at] = v;
}

/* And the sum of all: in double, as a long vocabulary's mean is wanted. */
static double find_largest(struct largest *l, const float *logits, uint32_t n)
{
	float least = -INFINITY;
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += (double)logits[i];
		if (!(logits[i] > least))
			continue;
		insert(l, logits[i]);
		if (l->n == l->room)
			least = l->value[l->room - 1];
	}
	return sum;
}

void certainty_of(struct certainty *c, const float *logits, uint32_t n_vocab,
	int32_t token, unsigned top)
{
	struct largest l = { .room = top };
	double sum, lse, total = 0;

	assert(top && top <= CERTAINTY_TOP);
	*c = (struct certainty){ 0 };
	sum = find_largest(&l, logits, n_vocab);
	if (!l.n || !isfinite(sum) || token < 0 || (uint32_t)token >= n_vocab)
		return;
	for (unsigned i = 0; i < l.n; i++)
		total += (double)l.value[i];
	lse = (double)l.value[0] +
		log(softmax_sum(logits, n_vocab, l.value[0], 1));
	c->logprob = (double)logits[token] - lse;
	c->self = lse - sum / n_vocab - log(n_vocab);
	c->confidence = lse - total / l.n;
}
