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
 * One measurement of some 10 ms each, on all threads together: bytes/s, and
 * operations/s of the kernels' instructions; 0 of kernels that have none.
 */
double bench_read_bandwidth(struct bench_machine *);
double bench_int8_peak(struct bench_machine *);

#endif
