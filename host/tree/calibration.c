#include "host/tree/calibration.h"

#include "tensor/softmax.h"

#include <assert.h>
#include <math.h>

/* Each observation takes away 1 / MEMORY of what all earlier observations have
 * added to the sums dd, de and ee (calibration.h). */
#define MEMORY 200
/* Fisher information assumed for the initial weights. For comparison: an
 * observation in which no candidate is nearly certain adds about 0.33. */
#define PRIOR 10
/* Weights are limited to the range 0 to MOST. */
#define MOST 4
/* A draft probability q below Q_LEAST counts as Q_LEAST, because its logarithm
 * is mostly noise. */
#define Q_LEAST 1e-6

void calibration_init(struct calibration *c, double draft, double exit)
{
	*c = (struct calibration){
		.draft = draft, .exit = exit, .dd = PRIOR, .ee = PRIOR
	};
}

static double ln_q(const struct candidate *c)
{
	return log(fmax((double)c->q, Q_LEAST));
}

void calibration_shares(const struct calibration *of, const struct candidate *c,
	const float *score, uint32_t n, double *share)
{
	struct softmax all = { .most = -INFINITY, .temperature = 1 };

	assert(n >= 1 && n <= TREE_CANDIDATES);
	for (uint32_t i = 0; i < n; i++) {
		share[i] = of->draft * ln_q(&c[i]) +
			(score ? of->exit * (double)score[i] : 0);
		all.most = fmax(all.most, share[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		share[i] = c[i].q > 0 ? softmax_add(&all, share[i]) : 0;
	for (uint32_t i = 0; i < n && all.sum > 0; i++)
		share[i] /= all.sum;
}

/* Add `by` to a weight, and limit the weight to its range. */
static void step(double *weight, double by)
{
	*weight = fmin(fmax(*weight + by, 0), MOST);
}

/*
 * A Newton step for the weights of ln q and s (calibration.h). The gradient of
 * the log-likelihood is the difference between the values (ln q and s) of the
 * drawn candidate and the means of these values over all candidates, weighted
 * by the shares. The information matrix is the covariance of the two values.
 * The step is solved for both weights together, because draft and predictor
 * mostly agree, so the values are correlated.
 */
void calibration_saw(struct calibration *of, const struct candidate *c,
	const float *score, uint32_t n, uint32_t drawn)
{
	double share[TREE_CANDIDATES], d = 0, e = 0, dd = 0, de = 0, ee = 0;
	double det;

	calibration_shares(of, c, score, n, share);
	for (uint32_t i = 0; i < n; i++) {
		d += share[i] * ln_q(&c[i]);
		e += score ? share[i] * (double)score[i] : 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		double x = ln_q(&c[i]) - d;
		double y = score ? (double)score[i] - e : 0;

		dd += share[i] * x * x;
		de += share[i] * x * y;
		ee += share[i] * y * y;
	}
	of->dd += dd - (of->dd - PRIOR) / MEMORY;
	of->de += de - of->de / MEMORY;
	of->ee += ee - (of->ee - PRIOR) / MEMORY;
	d = ln_q(&c[drawn]) - d;
	e = score ? (double)score[drawn] - e : 0;
	det = of->dd * of->ee - of->de * of->de;
	step(&of->draft, (of->ee * d - of->de * e) / det);
	step(&of->exit, (of->dd * e - of->de * d) / det);
}
