/*
 * Options that several benchmarks parse in the same way: lists of numbers, and
 * the phone profile to report beside the wall clock. Pure functions.
 */
#ifndef HOST_BENCH_BENCH_LISTS_H
#define HOST_BENCH_BENCH_LISTS_H

#include <stdint.h>

struct err;
struct soc;

#define BENCH_COUNTS 12

/* Parse "1,8,16", the value of --NAME, into the numbers and the largest one.
 * -EINVAL, with `try` as the hint, for other lists. */
int bench_counts(const char *name, const char *list, const char *try,
	uint32_t count[BENCH_COUNTS], unsigned *n, uint32_t *most,
	struct err *);

/* Load the profile "soc:NAME", NULL: soc:sd8gen3. *name points into `clock`. */
int bench_phone(
	const char *clock, const char **name, struct soc *, struct err *);

#endif
