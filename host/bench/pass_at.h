/*
 * pass@k: the probability that at least one of k samples is right. The unbiased
 * estimate uses n >= k samples, c of which are right (Chen et al., "Evaluating
 * large language models trained on code", 2021): one minus the share of subsets
 * of size k that have no right sample.
 */
#ifndef HOST_BENCH_PASS_AT_H
#define HOST_BENCH_PASS_AT_H

#include <stdint.h>

/* Return 1 - C(n - c, k) / C(n, k), computed as a product to avoid overflow. */
static inline double pass_at(uint32_t n, uint32_t c, uint32_t k)
{
	double none = 1;

	for (uint32_t i = 0; i < k; i++)
		none *= n - c > i ? (double)(n - c - i) / (double)(n - i) : 0;
	return 1 - none;
}

#endif
