/*
 * Options that several benchmarks parse in the same way: lists of numbers, and
 * the phone for which times are computed besides the wall-clock times.
 */
#ifndef HOST_BENCH_BENCH_LISTS_H
#define HOST_BENCH_BENCH_LISTS_H

#include <stdint.h>

struct err;
struct soc;

#define BENCH_COUNTS 12

/* Parse "1,8,16", the value of option --NAME. Stores the numbers in count[*n],
 * sets *n, and sets *most to the largest of the numbers. Returns 0 on success,
 * or -EINVAL if the list is not valid; the message then suggests the list
 * `try`. */
int bench_counts(const char *name, const char *list, const char *try,
	uint32_t count[BENCH_COUNTS], unsigned *n, uint32_t *most,
	struct err *);

/* Load the phone profile "soc:NAME"; `clock` NULL means soc:sd8gen3. Sets *name
 * to the part after "soc:": the profile's name and the changes to the profile.
 * Returns 0 or a negative errno. */
int bench_phone(
	const char *clock, const char **name, struct soc *, struct err *);

#endif
