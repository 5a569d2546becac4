/*
 * Sets of options, which a user lists for a comparison:
 *
 *   tree-rows=16; small: tree-rows=16 tree-depth=4; prune-always
 *
 * A `;` separates sets; spaces separate the options of a set. An option is
 * NAME=VALUE, or NAME alone for NAME=true. If the first word of a set ends in
 * `:` it is the name of the set; otherwise the set is named by its own text.
 * Values cannot contain a space or a `;`.
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

/* The caller zeroes the struct, and releases it with sets_release() even if
 * parsing fails. */
struct sets {
	struct options_set set[SETS_MAX];
	unsigned n;
};

/*
 * Parse a list of sets. Does not check that the options exist.
 *
 * Returns 0 on success. Returns -EINVAL for a set without options, an option
 * that occurs twice in a set, names that are equal or too long, and more than
 * SETS_MAX sets.
 */
int sets_parse(struct sets *, const char *text, struct err *);
void sets_release(struct sets *);

#endif
