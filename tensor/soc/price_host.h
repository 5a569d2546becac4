/*
 * The cost of the host's work other than matrix products: sweeps over rows of
 * logits, and steps through trees and lists. One thread does this work, so it
 * uses one core. The cycles of a sweep are its float32 operations (a fused
 * multiply-add counts as one), divided by the operations of a core per cycle. A
 * step is a load whose result is the address of the next load. The rows of
 * logits were just written and are in the core's cache, so reading them costs
 * nothing.
 *
 * As in tensor/soc/price.h, the cost depends only on the amount of work (rows,
 * values, steps), not on the values. A row of logits is as long as the
 * vocabulary of the model whose costs are computed (host/session/pricing.h).
 */
#ifndef TENSOR_SOC_PRICE_HOST_H
#define TENSOR_SOC_PRICE_HOST_H

#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stdint.h>

struct soc;

enum price_sweep {
	PRICE_SWEEP_ADD,     /* sum of all values */
	PRICE_SWEEP_LARGEST, /* find the largest value and its index */
	PRICE_SWEEP_WEIGH,   /* add e^(x - largest value), as a softmax does */
	/* find the index at which the sum of weights reaches a given value */
	PRICE_SWEEP_FIND,
	PRICE_SWEEPS
};

/* The price of a sweep over `rows` rows of n values. Both numbers may have any
 * value; 0 costs nothing. */
void price_sweep(const struct soc *, enum price_sweep, uint64_t rows,
	uint64_t n, struct price *out);

/* The price of `steps` loads, each of which waits for the preceding load. */
void price_walk(const struct soc *, uint64_t steps, struct price *out);

/*
 * The price of sampling a token from each row: the token with the largest logit
 * if `greedy` is set, else a random token. For a random token the softmax is
 * computed at two temperatures: the model's own and the requested temperature.
 */
void price_draw(const struct soc *, uint64_t rows, uint64_t n, bool greedy,
	struct price *out);

/* The work of looking up the next tokens in stored sequences of tokens. */
struct search_work {
	/* number of loads whose address is the result of the preceding load */
	uint64_t steps;
	/* number of values, contiguous in memory, that are compared or hashed
	 */
	uint64_t values;
	/* number of rows of logits whose likeliest tokens are stored */
	uint64_t rows;
};

/* The price of look-ups of tokens; a row has n logits. The search in a row
 * costs as much as PRICE_SWEEP_LARGEST. */
void price_search(const struct soc *, const struct search_work *, uint64_t n,
	struct price *out);

/* The price of finding the k largest of the n values of each row, in sorted
 * order, and their probabilities. */
void price_top(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	struct price *out);

#endif
