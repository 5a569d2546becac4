/*
 * Measures the highest memory bandwidth and arithmetic rate of this machine
 * with minimal code. Benchmarks report the speed of kernels as a share of these
 * limits, which are measured in the same run.
 */
#ifndef HOST_BENCH_BENCH_MACHINE_H
#define HOST_BENCH_BENCH_MACHINE_H

#include "base/median.h"

#include <stddef.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX MEDIAN_MOST

struct bench_machine;
struct err;

/*
 * Start `threads` threads, which read a block of `bytes` bytes, 512 MiB at
 * most. `bytes` must be the size of the weights that the benchmark's passes
 * read: if these weights fit in a cache, the bandwidth of the cache limits the
 * passes, so the block must fit in the cache, too. On success *out must be
 * closed with bench_machine_close(). Returns 0 or a negative errno.
 */
int bench_machine_open(struct bench_machine **out, unsigned threads,
	size_t bytes, struct err *);
void bench_machine_close(struct bench_machine *);

/*
 * Return the block, which is allocated like a buffer for weights. Any two
 * adjacent bytes form a small fp16 number, and any byte is a valid quantized
 * code. So any piece can serve as weights of any type without packing, and
 * kernels meet no denormals or NaNs.
 */
const uint8_t *bench_machine_block(const struct bench_machine *);

/*
 * Each call of these two functions takes three measurements of a few ms each,
 * on all threads at once and with the same instructions as the kernels. Each
 * call returns the best of its three results, because a result is too low if a
 * thread wakes up late. The functions return 0 if the kernels have no function
 * for the measurement.
 *
 * bench_read_bandwidth returns the bytes/s of reading the block repeatedly.
 * bench_int8_peak returns int8 operations/s.
 */
double bench_read_bandwidth(struct bench_machine *);
double bench_int8_peak(struct bench_machine *);

/* Raise a measured limit that a pass has exceeded: other programs may have
 * slowed down the measurement of the limit. An unknown limit (0) stays 0. */
static inline void bench_raise(double *limit, double rate)
{
	if (*limit > 0 && rate > *limit)
		*limit = rate;
}

/* Return `rate` as a share of `limit`, or 0 if the limit is unknown. */
static inline double bench_share(double rate, double limit)
{
	return limit > 0 ? rate / limit : 0;
}

#endif
