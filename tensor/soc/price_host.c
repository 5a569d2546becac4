#include "tensor/soc/price_host.h"

#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"

/*
 * Float32 operations per value. The 17 operations of PRICE_SWEEP_WEIGH are
 * those of softmax_exp (tensor/softmax_sum.h), with its variables t, n and r,
 * and of its caller: subtract and scale; compute t and n; compute r in two
 * operations, and the polynomial in six; shift and add; compare and mask; add
 * to the sum.
 */
static const unsigned sweep_ops[PRICE_SWEEPS] = {
	[PRICE_SWEEP_ADD] = 1,
	/* compare, select the value, select the index, count */
	[PRICE_SWEEP_LARGEST] = 4,
	[PRICE_SWEEP_WEIGH] = 17,
	[PRICE_SWEEP_FIND] = 2, /* subtract, compare */
};

/* Operations per value to find the k largest values: compare the value with the
 * smallest candidate, and branch. */
#define TOP_OPS 2

/* Operations per value of a look-up (struct search_work): compare and branch,
 * or multiply and add to a hash. */
#define SEARCH_OPS 2

static void price_ops(const struct soc *soc, double ops, struct price *out)
{
	price_cpu_busy(soc, ops / soc->core_lanes / soc->core_hz, out);
}

void price_sweep(const struct soc *soc, enum price_sweep sweep, uint64_t rows,
	uint64_t n, struct price *out)
{
	price_ops(soc, (double)rows * (double)n * sweep_ops[sweep], out);
}

void price_walk(const struct soc *soc, uint64_t steps, struct price *out)
{
	price_cpu_busy(
		soc, (double)steps * soc->core_step_cycles / soc->core_hz, out);
}

void price_search(const struct soc *soc, const struct search_work *work,
	uint64_t n, struct price *out)
{
	double ops = (double)work->values * SEARCH_OPS +
		(double)work->rows * (double)n * sweep_ops[PRICE_SWEEP_LARGEST];
	struct price steps;

	price_ops(soc, ops, out);
	price_walk(soc, work->steps, &steps);
	price_add(out, &steps);
}

void price_draw(const struct soc *soc, uint64_t rows, uint64_t n, bool greedy,
	struct price *out)
{
	unsigned ops = sweep_ops[PRICE_SWEEP_LARGEST];

	if (!greedy)
		ops += 2 * sweep_ops[PRICE_SWEEP_WEIGH] +
			sweep_ops[PRICE_SWEEP_FIND];
	price_ops(soc, (double)rows * (double)n * ops, out);
}

void price_top(const struct soc *soc, uint64_t rows, uint64_t n, uint64_t k,
	struct price *out)
{
	unsigned ops = TOP_OPS + sweep_ops[PRICE_SWEEP_WEIGH];
	struct price steps;
	/* `depth` is the depth of the heap of the k largest values */
	uint64_t depth = 1, doublings = 0;

	k = smaller(k, n);
	for (uint64_t left = k; left >>= 1;)
		depth++;
	/* The expected number of insertions into the heap of the k largest
	 * values, if a row is in random order: k for the first k values, and k
	 * ln 2 each time that the number of processed values doubles. */
	for (uint64_t seen = k; seen && seen < n; seen *= 2)
		doublings++;
	price_ops(soc, (double)rows * (double)n * ops, out);
	price_walk(soc, rows * (k + doublings * k * 7 / 10) * depth, &steps);
	price_add(out, &steps);
}
