/*
 * A fast sum of a long row of weights e^((logit - most) * scale), each with a
 * relative error of 2e-7. The sum is computed in float32, in lanes that the
 * compiler vectorizes, and without libm, whose results depend on the CPU. Equal
 * logits give equal bits. For single probabilities use tensor/softmax.h, which
 * computes in double.
 */
#ifndef TENSOR_SOFTMAX_SUM_H
#define TENSOR_SOFTMAX_SUM_H

#include <stdint.h>
#include <string.h>

#define SOFTMAX_LANES 16
/* number of values that are summed in float32; such sums are then added in
 * double */
#define SOFTMAX_PIECE (64 * SOFTMAX_LANES)

/* e^x for x <= 0 with a relative error of 2e-7. The result is 0 for x below -87
 * and for NaN. */
static inline float softmax_exp(float x)
{
	/* adding `round` to a float rounds the float to an integer */
	const float round = 0x1.8p23f;
	float t = x * 1.44269504f + round, n = t - round;
	float r = x - n * 0.693359375f + n * 2.12194440e-4f, p;
	uint32_t power, bits;

	p = 1 / 24.f + r * (1 / 120.f + r * (1 / 720.f));
	p = 1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * p)));
	memcpy(&power, &t, sizeof(t));
	memcpy(&bits, &p, sizeof(p));
	bits += power << 23;
	/* a mask instead of a branch, so that loops over this function
	 * vectorize */
	bits &= -(uint32_t)(x > -87);
	memcpy(&p, &bits, sizeof(p));
	return p;
}

/* The sum of the weights of n logits, n at most SOFTMAX_PIECE. */
static inline double softmax_piece(
	const float *logits, uint32_t n, float most, float scale)
{
	float lane[SOFTMAX_LANES] = { 0 }, sum = 0;
	uint32_t i = 0;

	for (; i + SOFTMAX_LANES <= n; i += SOFTMAX_LANES)
		for (uint32_t l = 0; l < SOFTMAX_LANES; l++)
			lane[l] += softmax_exp((logits[i + l] - most) * scale);
	for (uint32_t l = 0; i + l < n; l++)
		lane[l] += softmax_exp((logits[i + l] - most) * scale);
	for (uint32_t l = 0; l < SOFTMAX_LANES; l++)
		sum += lane[l];
	return (double)sum;
}

static inline double softmax_sum(
	const float *logits, uint32_t n, float most, float scale)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i += SOFTMAX_PIECE)
		sum += softmax_piece(logits + i,
			n - i < SOFTMAX_PIECE ? n - i : SOFTMAX_PIECE, most,
			scale);
	return sum;
}

#endif
