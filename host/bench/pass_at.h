/*
 * pass@k: the probability that at least one of k samples is right, estimated
 * without bias from n >= k samples of which c are right (Chen et al.,
 * "Evaluating large language models trained on code", 2021): one minus the
 * share of the subsets of size k without a right sample.
 */
#ifndef HOST_BENCH_PASS_AT_H
#define HOST_BENCH_PASS_AT_H

#include <stdint.h>

/* 1 - C(n - c, k) / C(n, k), as a product, which does not overflow. */
static inline double pass_at(uint32_t n, uint32_t c, uint32_t k)
{
	double none = 1;

	for (uint32_t i = 0; i < k; i++)
		none *= n - c > i ? (double)(n - c - i) / (double)(n - i) : 0;
	return 1 - none;
}

#endif
