/*
 * What the host works on that is no matrix: sweeps over rows of logits, and
 * steps through trees and lists. It is one thread's, so one core's, and priced
 * by counting: the float32 operations that a sweep takes of each value (a
 * product and a sum together are one), so many of which a core does in a cycle,
 * and steps, each a load that the next one waits for. Rows were just written,
 * and lie in the core's own cache: their bytes cost nothing more.
 *
 * As in tensor/soc/price.h nothing but the shape matters. A row of logits is
 * priced as long as that of the model that is priced (host/session/pricing.h).
 */
#ifndef TENSOR_SOC_PRICE_HOST_H
#define TENSOR_SOC_PRICE_HOST_H

#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

struct soc;

enum price_sweep {
	PRICE_SWEEP_ADD,     /* all values are added up */
	PRICE_SWEEP_LARGEST, /* the largest, and where it is */
	PRICE_SWEEP_WEIGH,   /* e^(x - the largest), added up: a softmax */
	PRICE_SWEEP_FIND,    /* where a sum of weights is reached */
	PRICE_SWEEPS
};

/* Of `rows` rows of n values; any numbers, 0 costs nothing. */
void price_sweep(const struct soc *, enum price_sweep, uint64_t rows,
	uint64_t n, struct price *out);

void price_walk(const struct soc *, uint64_t steps, struct price *out);

/* A token drawn from each row: the largest, or else by a random number from
 * all, weighed at the model's temperature and at that asked for. */
void price_draw(const struct soc *, uint64_t rows, uint64_t n, bool greedy,
	struct price *out);

/* The k largest of each row in their order, and their probabilities. */
void price_top(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	struct price *out);

#endif
