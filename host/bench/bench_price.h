/*
 * tandem bench price: the cost of a pass of a streamed model on a phone, term
 * by term, without running anything (host/bench/pass_price.h): for trees of
 * given sizes, or for those that a run of bench lever has recorded; and the
 * sensitivity of the methods' ratios to the fitted constants of a profile.
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
	const char *clock; /* "soc:NAME" */
	/* draft NULL: drafting costs nothing */
	const struct shape *target, *draft;
	enum dtype type;
	double resident;
	uint32_t runs, slots, seen;
	/* Rows of a pass; or NULL: use `from`, the JSON of bench lever. */
	uint32_t rows[BENCH_PRICE_ROWS];
	unsigned n_rows;
	/* For all of `rows`: rows in the upper half, nodes drafted and tokens
	 * emitted by a pass; below 0 the defaults are all rows, rows - 1, and
	 * 1. */
	double upper, drafted, length;
	const char *from;
	/* vary the fitted constants of the profile; only with `from` */
	bool vary;
	bool json;
};

int bench_price(const struct bench_price_args *, struct err *);

#endif
