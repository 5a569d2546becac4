/*
 * Estimates of the probability that the target draws each candidate of a node.
 * Two uncertain signals are combined: the draft's probability q and, in the
 * middle of a verification, the exit predictor's score s. Candidate i of a node
 * has the share
 *
 *   w_i / (sum of all w_j),  w_i = exp(a ln q_i + b s_i)
 *
 * of the probability that any of the candidates is drawn. A greedy target draws
 * likely candidates more often than q predicts, so a is then above 1. The
 * weights a and b are learnt from verifications, by Newton steps towards the
 * largest likelihood (a conditional logit model), in which old observations
 * lose influence. The shares add up to 1; without scores they have the same
 * order as q.
 */
#ifndef HOST_TREE_CALIBRATION_H
#define HOST_TREE_CALIBRATION_H

#include "host/tree/tree.h"

#include <stdint.h>

struct calibration {
	/* the weights a and b of the formula at the top of this file */
	double draft, exit;
	/* Fisher information about the weights: each verification adds the
	 * variance of ln q among its candidates to dd, the variance of s to ee,
	 * and the covariance of ln q and s to de. */
	double dd, de, ee;
};

void calibration_init(struct calibration *, double draft, double exit);

/* Write to share[n] the shares of c[n], 1 <= n <= TREE_CANDIDATES. `score` has
 * the exit predictor's scores; NULL if the exit predictor was not called or one
 * of the scores is not finite. */
void calibration_shares(const struct calibration *, const struct candidate *c,
	const float *score, uint32_t n, double *share);

/* Learn from a verification that drew candidate `drawn` of c[n]. */
void calibration_saw(struct calibration *, const struct candidate *c,
	const float *score, uint32_t n, uint32_t drawn);

#endif
