/*
 * tandem bench price: computes the cost of a pass on a phone, in total and for
 * each part of the pass, without running a model (host/session/pass_price.h).
 * The model is streamed: each pass reads its layers from flash. The passes
 * verify draft trees of given sizes, or are the mean pass of each method, as
 * recorded by a run of bench lever. Also reports how the times of the passes,
 * and lever's speed-ups over other methods, depend on a constant of the phone's
 * profile.
 */
#ifndef HOST_BENCH_BENCH_PRICE_H
#define HOST_BENCH_BENCH_PRICE_H

#include "host/model/shape_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape;
struct err;

#define BENCH_PRICE_ROWS 24
#define PRICE_ROWS_MAX   4096 /* maximum number of rows of a pass */

/*
 * The values that a constant of the phone's profile takes: n values from `from`
 * to `to`. They are evenly spaced, or spaced geometrically if `to` is more than
 * 10 times `from` and `from` is positive.
 */
struct price_vary {
	size_t which; /* index of the constant in soc_numbers */
	double from, to;
	unsigned n; /* number of values; 0 means that no constant varies */
};

struct bench_price_args {
	/* phone profile and changes to it: "soc:NAME,KEY=VALUE" */
	const char *clock;
	/* shapes of the target and the draft model; `draft` NULL means that
	 * drafting costs nothing */
	const struct shape *target, *draft;
	struct shape_type type;
	double resident;
	uint32_t runs, slots, seen;
	/*
	 * [n_rows] numbers of rows (tokens); the cost of one pass is computed
	 * for each number. Ignored if `from` is not NULL: the passes then come
	 * from the file `from`, the JSON output of bench lever.
	 */
	uint32_t rows[BENCH_PRICE_ROWS];
	unsigned n_rows;
	/* The following three numbers apply to each element of `rows`. upper:
	 * rows computed in the upper half of the layers; drafted: nodes
	 * drafted; length: tokens emitted by the pass. A negative number means
	 * the default: all rows, rows - 1 nodes, 1 token. */
	double upper, drafted, length;
	const char *from;
	struct price_vary vary;
	/* whether to vary, by -30 % and by +30 %, each constant of the profile
	 * that is fitted to measurements, instead of the constant in `vary`;
	 * needs `from` */
	bool vary_fitted;
	bool json;
};

/* Parse "KEY=A:B" or "KEY=A:B:N", the value of --vary. Returns 0 or -EINVAL. */
int price_vary_parse(const char *text, struct price_vary *, struct err *);

int bench_price(const struct bench_price_args *, struct err *);

#endif
