/*
 * How large the trees are that a method drafts: options that all methods with
 * trees share.
 */
#ifndef HOST_METHOD_TREE_OPTIONS_H
#define HOST_METHOD_TREE_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct method_env;

/* Of who weighs what rows cost the trees of a pass that waits for flash may be
 * larger: it has time for more of them, and for deeper trees. */
#define TREE_ROWS           64
#define TREE_ROWS_STREAMED  256
#define TREE_ROWS_MOST      256
#define TREE_DEPTH          12
#define TREE_DEPTH_STREAMED 32

struct tree_options {
	/* Of a tree, the root among them, at most; of many samples of all
	 * their trees together. 0, and of `depth` too: the method's own. */
	uint32_t rows;
	uint32_t depth;
	uint32_t candidates; /* behind a node */
};
extern const struct opt_table tree_table;

/* For methods that have no options but these. */
extern const struct opt_table *const tree_tables[];

const struct tree_options *tree_options(const struct method_env *);

/* Of the decode graph: those of the largest tree. Where nothing is asked
 * TREE_ROWS and TREE_DEPTH. */
uint32_t tree_decode_rows(const struct method_env *);
uint32_t tree_depth(const struct method_env *);

/* The same of a method that stops where a row costs more than it gains: where
 * env->streams TREE_ROWS_STREAMED and TREE_DEPTH_STREAMED. */
uint32_t tree_decode_rows_weighed(const struct method_env *);
uint32_t tree_depth_weighed(const struct method_env *);

#endif
