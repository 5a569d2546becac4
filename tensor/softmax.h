/*
 * Probabilities of logits on the host, in double and in the order in which they
 * are given: what samples, scores and prunes. Whoever gives the same logits in
 * the same order gets the same bits. (Who needs less exact ones of a whole
 * vocabulary sums faster: tensor/softmax_sum.h.)
 */
#ifndef TENSOR_SOFTMAX_H
#define TENSOR_SOFTMAX_H

#include <math.h>

struct softmax {
	double most; /* the largest of the logits, so that no weight overflows
		      */
	double temperature; /* > 0 */
	double sum;         /* of the weights so far */
};

/* What stands over the sum. */
static inline double softmax_weight(const struct softmax *s, double logit)
{
	return exp((logit - s->most) / s->temperature);
}

/* One more; returns its weight. */
static inline double softmax_add(struct softmax *s, double logit)
{
	double weight = softmax_weight(s, logit);

	s->sum += weight;
	return weight;
}

/* Of one of them, all having been added. */
static inline double softmax_of(const struct softmax *s, double logit)
{
	return softmax_weight(s, logit) / s->sum;
}

#endif
