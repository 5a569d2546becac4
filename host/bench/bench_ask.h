/*
 * What several benchmarks are asked for by the same words: numbers of samples
 * or of requests, and a phone beside the wall clock. Pure functions.
 */
#ifndef HOST_BENCH_BENCH_ASK_H
#define HOST_BENCH_BENCH_ASK_H

#include <stdint.h>

struct err;
struct soc;

#define BENCH_COUNTS 12

/* "1,8,16" of --NAME: the numbers and the largest one; -EINVAL, with what to
 * try, for other lists. */
int bench_counts(const char *name, const char *list, const char *try,
	uint32_t count[BENCH_COUNTS], unsigned *n, uint32_t *most,
	struct err *);

/* "soc:NAME", NULL: soc:sd8gen3: the name, which points into the text, and the
 * phone. */
int bench_phone(
	const char *clock, const char **name, struct soc *, struct err *);

#endif
