/*
 * Sets of options, as a user lists them for a comparison:
 *
 *   tree-rows=16; small: tree-rows=16 tree-depth=4; prune-always
 *
 * Sets are separated by `;`, the options of a set by spaces. An option is
 * NAME=VALUE, or NAME alone for NAME=true. A first word that ends in `:` is the
 * set's name; without one its text is. Values hold no space and no `;`.
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
 * -EINVAL for a set without options, an option that occurs twice in a set,
 * names that are equal or too long, and more sets than SETS_MAX. Does not check
 * that the options exist.
 */
int sets_parse(struct sets *, const char *text, struct err *);
void sets_release(struct sets *);

#endif
