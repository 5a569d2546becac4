/*
 * tandem bench price: computes what a pass of a streamed model costs on a
 * phone, term by term, without running a model (host/session/pass_price.h). The
 * passes are trees of given sizes, or the mean passes that a run of bench lever
 * has recorded. Also reports how sensitive the ratios between methods are to
 * the fitted constants of a phone profile.
 */
#ifndef HOST_BENCH_BENCH_PRICE_H
#define HOST_BENCH_BENCH_PRICE_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct shape;

#define BENCH_PRICE_ROWS 24
#define PRICE_ROWS_MAX   4096 /* maximum number of rows of a pass */

struct bench_price_args {
	const char *clock; /* the phone, as "soc:NAME" */
	/* draft NULL means that drafting costs nothing */
	const struct shape *target, *draft;
	enum dtype type;
	double resident;
	uint32_t runs, slots, seen;
	/* [n_rows] numbers of rows of a pass. Ignored if `from` names a file
	 * with the JSON output of bench lever, which then gives the passes. */
	uint32_t rows[BENCH_PRICE_ROWS];
	unsigned n_rows;
	/* These three apply to all entries of `rows`: rows computed in the
	 * upper half of the layers, nodes drafted, and tokens emitted by a
	 * pass. A negative value means the default: all rows, rows - 1, and
	 * 1. */
	double upper, drafted, length;
	const char *from;
	/* vary the fitted constants of the profile; needs `from` */
	bool vary;
	bool json;
};

int bench_price(const struct bench_price_args *, struct err *);

#endif
