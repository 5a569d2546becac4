/*
 * How large the trees are that a method drafts: options that all methods with
 * trees share.
 */
#ifndef HOST_METHOD_TREE_OPTIONS_H
#define HOST_METHOD_TREE_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct method_env;

/*
 * On an NPU rows are nearly free, because its tiles are computed whole, and so
 * are they in a pass that waits for flash; there, a method that weighs the cost
 * of rows may use more of them, and deeper trees. Where CPUs compute a model in
 * memory, 8 rows take 2 to 3 times as long as one, and 64 some fifteen times
 * (docs/performance.md): more than a larger tree can gain.
 */
#define TREE_ROWS           64
#define TREE_ROWS_CPU       8
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
 * TREE_ROWS, or TREE_ROWS_CPU, and TREE_DEPTH. */
uint32_t tree_decode_rows(const struct method_env *);
uint32_t tree_depth(const struct method_env *);

/* The same of a method that stops where a row costs more than it gains: where
 * env->streams TREE_ROWS_STREAMED and TREE_DEPTH_STREAMED. */
uint32_t tree_decode_rows_weighed(const struct method_env *);
uint32_t tree_depth_weighed(const struct method_env *);

#endif
