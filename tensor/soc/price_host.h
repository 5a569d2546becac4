/*
 * The cost of the host's work other than matrix products: sweeps over rows of
 * logits, and steps through trees and lists. One thread does it, so one core. A
 * sweep costs the float32 operations for each value (a fused multiply-add is
 * one), divided by a core's operations per cycle. A step is a load that the
 * next step waits for. The rows were just written and are in the core's cache,
 * so their bytes cost nothing.
 *
 * As in tensor/soc/price.h only the shape matters. A row of logits is as long
 * as the vocabulary of the priced model (host/session/pricing.h).
 */
#ifndef TENSOR_SOC_PRICE_HOST_H
#define TENSOR_SOC_PRICE_HOST_H

#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

struct soc;

enum price_sweep {
	PRICE_SWEEP_ADD,     /* sum of all values */
	PRICE_SWEEP_LARGEST, /* the largest value and its index */
	PRICE_SWEEP_WEIGH,   /* sum of e^(x - the largest): a softmax */
	PRICE_SWEEP_FIND,    /* index at which a sum of weights is reached */
	PRICE_SWEEPS
};

/* Sweep over `rows` rows of n values; any numbers, 0 costs nothing. */
void price_sweep(const struct soc *, enum price_sweep, uint64_t rows,
	uint64_t n, struct price *out);

void price_walk(const struct soc *, uint64_t steps, struct price *out);

/* Sample a token from each row: the largest, or a random one with weights at
 * the model's temperature and at the requested one. */
void price_draw(const struct soc *, uint64_t rows, uint64_t n, bool greedy,
	struct price *out);

/* The k largest values of each row, sorted, and their probabilities. */
void price_top(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	struct price *out);

#endif
