/*
 * A histogram of durations, for Prometheus. Each bucket counts the durations up
 * to its upper bound that are above the bound of the bucket before it.
 */
#ifndef HOST_SERVE_HISTOGRAM_H
#define HOST_SERVE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 16 };

/* Upper bounds of the buckets in seconds; one more bucket has no bound. */
static const double histogram_bounds[HISTOGRAM_BOUNDS] = { 0.001, 0.0025, 0.005,
	0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300 };

struct histogram {
	/* number of durations in each bucket, not cumulative */
	uint64_t n[HISTOGRAM_BOUNDS + 1];
	double sum; /* sum of all durations, in seconds */
};

static inline void histogram_add(struct histogram *h, double seconds)
{
	size_t i = 0;

	while (i < HISTOGRAM_BOUNDS && seconds > histogram_bounds[i])
		i++;
	h->n[i]++;
	h->sum += seconds;
}

#endif
