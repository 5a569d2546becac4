#include "tensor/soc/price_host.h"

#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"

/*
 * Float32 operations a value. WEIGH is that of tensor/softmax_sum.h: subtract,
 * times the scale; t and n; r in two; the polynomial in six; shift, add;
 * compare, mask; the sum.
 */
static const unsigned sweep_ops[PRICE_SWEEPS] = {
	[PRICE_SWEEP_ADD] = 1,
	[PRICE_SWEEP_LARGEST] = 4, /* compare, select both; count places */
	[PRICE_SWEEP_WEIGH] = 17,
	[PRICE_SWEEP_FIND] = 2, /* subtract, compare */
};

/* Of a list of candidates: compare with the least of them, and test. */
#define TOP_OPS 2

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

void price_draw(const struct soc *soc, uint64_t rows, uint64_t n, bool greedy,
	struct price *out)
{
	unsigned ops = sweep_ops[PRICE_SWEEP_LARGEST];

	if (!greedy)
		ops += 2 * sweep_ops[PRICE_SWEEP_WEIGH] +
			sweep_ops[PRICE_SWEEP_FIND];
	price_ops(soc, (double)rows * (double)n * ops, out);
}

/* Times a value of a row in no order enters a heap of the k largest so far: k,
 * and k ln 2 for each doubling of what was seen. */
static uint64_t entries(uint64_t n, uint64_t k)
{
	uint64_t doublings = 0;

	for (uint64_t seen = k; seen && seen < n; seen *= 2)
		doublings++;
	return k + doublings * k * 7 / 10;
}

void price_top(const struct soc *soc, uint64_t rows, uint64_t n, uint64_t k,
	struct price *out)
{
	unsigned ops = TOP_OPS + sweep_ops[PRICE_SWEEP_WEIGH];
	struct price steps;
	uint64_t depth = 1; /* of the heap */

	k = smaller(k, n);
	for (uint64_t left = k; left >>= 1;)
		depth++;
	price_ops(soc, (double)rows * (double)n * ops, out);
	price_walk(soc, rows * entries(n, k) * depth, &steps);
	price_add(out, &steps);
}
