/*
 * The highest memory bandwidth and arithmetic rate of this machine, measured
 * with the least code possible: the limits that kernels are compared with in
 * the same run.
 */
#ifndef HOST_BENCH_BENCH_MACHINE_H
#define HOST_BENCH_BENCH_MACHINE_H

#include "base/median.h"

#include <stddef.h>

#define BENCH_ROUNDS_MAX MEDIAN_MOST

struct bench_machine;
struct err;

/* Start `threads` threads, which share one large block of memory. */
int bench_machine_open(
	struct bench_machine **out, unsigned threads, struct err *);
void bench_machine_close(struct bench_machine *);

/*
 * Each call measures three times for some ms, on all threads together and with
 * the instructions of the kernels, and returns the best, since a thread may be
 * woken late. 0 where the kernels have no such instructions.
 *
 * bench_read_bandwidth: bytes/s of reading the same `bytes` over and over. Pass
 * the size of the weights: a cache may hold them. bench_int8_peak:
 * operations/s.
 */
double bench_read_bandwidth(struct bench_machine *, size_t bytes);
double bench_int8_peak(struct bench_machine *);

/* A rate as a share of a limit; 0 where no limit is known. */
static inline double bench_share(double rate, double limit)
{
	return limit > 0 ? rate / limit : 0;
}

#endif
