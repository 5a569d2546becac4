/*
 * How large the trees are that a method drafts: options that all methods with
 * trees share.
 */
#ifndef HOST_METHOD_TREE_OPTIONS_H
#define HOST_METHOD_TREE_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct method_env;

struct tree_options {
	/* Of a tree, the root among them, at most; of many samples of all
	 * their trees together. */
	uint32_t rows;
	uint32_t depth;
	uint32_t candidates; /* behind a node */
};
extern const struct opt_table tree_table;

/* For methods that have no options but these. */
extern const struct opt_table *const tree_tables[];

const struct tree_options *tree_options(const struct method_env *);

/* Of the decode graph: those of the largest tree. */
uint32_t tree_decode_rows(const struct method_env *);

#endif
