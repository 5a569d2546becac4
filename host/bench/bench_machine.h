/*
 * Measures the highest memory bandwidth and arithmetic rate of this machine
 * with minimal code. Benchmarks report the speed of kernels as a share of these
 * limits, which are measured in the same run.
 */
#ifndef HOST_BENCH_BENCH_MACHINE_H
#define HOST_BENCH_BENCH_MACHINE_H

#include "base/median.h"

#include <stddef.h>

#define BENCH_ROUNDS_MAX MEDIAN_MOST

struct bench_machine;
struct err;

/* Start `threads` threads, which share one large block of memory. On success
 * *out must be closed with bench_machine_close(). Returns 0 or a negative
 * errno. */
int bench_machine_open(
	struct bench_machine **out, unsigned threads, struct err *);
void bench_machine_close(struct bench_machine *);

/*
 * Each call takes three measurements of a few ms each, on all threads at once
 * and with the same instructions as the kernels. It returns the best result,
 * because a result is too low if a thread wakes up late. Returns 0 if the
 * kernels have no such instructions.
 *
 * bench_read_bandwidth returns the bytes/s of reading the same `bytes` bytes
 * repeatedly. Pass the size of the weights: if they fit in a cache, the limit
 * must be the bandwidth of this cache. bench_int8_peak returns int8
 * operations/s.
 */
double bench_read_bandwidth(struct bench_machine *, size_t bytes);
double bench_int8_peak(struct bench_machine *);

/* Return `rate` as a share of `limit`, or 0 if the limit is unknown. */
static inline double bench_share(double rate, double limit)
{
	return limit > 0 ? rate / limit : 0;
}

#endif
