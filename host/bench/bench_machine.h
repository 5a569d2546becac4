/*
 * What this machine's memory and arithmetic units give at most, measured with
 * the least code there is: the limits that kernels are compared with, in the
 * same run.
 */
#ifndef HOST_BENCH_BENCH_MACHINE_H
#define HOST_BENCH_BENCH_MACHINE_H

#include "base/median.h"

#include <stddef.h>

#define BENCH_ROUNDS_MAX MEDIAN_MOST

struct bench_machine;
struct err;

/* `threads` threads, which share one large block of memory. */
int bench_machine_open(
	struct bench_machine **out, unsigned threads, struct err *);
void bench_machine_close(struct bench_machine *);

/*
 * One measurement of some 10 ms each, on all threads together, by the kernels'
 * own instructions; 0 of kernels that have none. Bytes/s of reading `bytes`
 * again and again, for what fits a cache is read faster (the best of a few:
 * memory is shared with others); operations/s.
 */
double bench_read_bandwidth(struct bench_machine *, size_t bytes);
double bench_int8_peak(struct bench_machine *);

/* What part of a limit a rate is; 0 where no limit is known. */
static inline double bench_share(double rate, double limit)
{
	return limit > 0 ? rate / limit : 0;
}

#endif
