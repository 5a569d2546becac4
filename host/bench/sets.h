/*
 * Sets of options, as a user lists them for a comparison:
 *
 *   tree-rows=16; small: tree-rows=16 tree-depth=4; prune-always
 *
 * A `;` ends a set, space stands between the options of one, each NAME=VALUE
 * or NAME alone, which is NAME=true. A first word that ends in `:` is what the
 * set is called; else it is called as it is written. Values hold no space and
 * no `;`.
 */
#ifndef HOST_BENCH_SETS_H
#define HOST_BENCH_SETS_H

#include "host/bench/bench_table.h"
#include "host/bench/setting.h"

struct err;

#define SETS_MAX 24

struct options_set {
	char name[TABLE_NAME];
	struct setting changes;
};

/* Starts zeroed; sets_release in any case. */
struct sets {
	struct options_set set[SETS_MAX];
	unsigned n;
};

/*
 * -EINVAL for a set without options, one that has an option twice, names that
 * are too long to be told apart or not different, and more sets than SETS_MAX.
 * Which options there are is not known here.
 */
int sets_parse(struct sets *, const char *text, struct err *);
void sets_release(struct sets *);

#endif
