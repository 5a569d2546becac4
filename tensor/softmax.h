/*
 * Probabilities of logits on the host, for sampling, scoring and pruning. The
 * probabilities are computed in double and summed in the order in which the
 * logits are added, so that equal inputs give equal bits. For sums over a whole
 * vocabulary, tensor/softmax_sum.h is faster and less exact.
 */
#ifndef TENSOR_SOFTMAX_H
#define TENSOR_SOFTMAX_H

#include <math.h>

struct softmax {
	/* the largest of all logits; it is subtracted from each logit, so that
	 * weights are at most 1 */
	double most;
	double temperature; /* greater than 0 */
	double sum;         /* sum of the weights of the logits added so far */
};

/* The weight of a logit: its probability is its weight divided by the sum of
 * all weights. */
static inline double softmax_weight(const struct softmax *s, double logit)
{
	return exp((logit - s->most) / s->temperature);
}

/* Add the weight of a logit to the sum, and return the weight. */
static inline double softmax_add(struct softmax *s, double logit)
{
	double weight = softmax_weight(s, logit);

	s->sum += weight;
	return weight;
}

/* The probability of a logit, valid after all logits have been added. */
static inline double softmax_of(const struct softmax *s, double logit)
{
	return softmax_weight(s, logit) / s->sum;
}

#endif
