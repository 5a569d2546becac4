/*
 * tandem bench price: what a pass of a streamed model costs on a phone, term by
 * term and without running anything (host/bench/pass_price.h): of trees whose
 * sizes are said, or of those that a run of bench lever has recorded; and what
 * ratios of methods owe to the constants that a profile was fitted by.
 */
#ifndef HOST_BENCH_BENCH_PRICE_H
#define HOST_BENCH_BENCH_PRICE_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct shape;

#define BENCH_PRICE_ROWS 24
#define PRICE_ROWS_MAX   4096 /* of a pass */

struct bench_price_args {
	const char *clock;                  /* "soc:NAME" */
	const struct shape *target, *draft; /* draft NULL: it is free */
	enum dtype type;
	double resident;
	uint32_t runs, slots, seen;
	/* Of a pass each; or NULL, what `from` has: the JSON of bench lever. */
	uint32_t rows[BENCH_PRICE_ROWS];
	unsigned n_rows;
	/* Of all of these: rows in the upper half, nodes drafted, tokens that
	 * come of it; below 0: all rows, one fewer than rows, one. */
	double upper, drafted, length;
	const char *from;
	bool vary; /* the fitted constants of the profile, with `from` alone */
	bool json;
};

int bench_price(const struct bench_price_args *, struct err *);

#endif
