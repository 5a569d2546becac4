/* Options for the size of drafted trees, shared by all methods that draft
 * trees. */
#ifndef HOST_METHOD_TREE_OPTIONS_H
#define HOST_METHOD_TREE_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct method_env;

/*
 * Default sizes. On an NPU further rows are nearly free, because it computes
 * whole tiles, and so they are in a pass that waits for flash; there a method
 * that weighs the cost of rows may use more of them, and deeper trees. Where
 * CPUs compute a model in memory, 8 rows take 2 to 3 times as long as one, and
 * 64 about 15 times (docs/performance.md): more than a larger tree can gain.
 */
#define TREE_ROWS           64
#define TREE_ROWS_CPU       8
#define TREE_ROWS_STREAMED  256
#define TREE_ROWS_MOST      256
#define TREE_DEPTH          12
#define TREE_DEPTH_STREAMED 32

struct tree_options {
	/* Rows of a tree at most, the root included; with many samples, of all
	 * their trees together. 0, also for `depth`: the method's default. */
	uint32_t rows;
	uint32_t depth;
	uint32_t candidates; /* for each node */
};
extern const struct opt_table tree_table;

/* Option tables of a method that has no others. */
extern const struct opt_table *const tree_tables[];

/* Rows of the decode graph, which are those of the largest tree, and its depth:
 * as given by options, else TREE_ROWS or TREE_ROWS_CPU, and TREE_DEPTH. */
uint32_t tree_decode_rows(const struct method_env *);
uint32_t tree_depth(const struct method_env *);

/* The same for a method that adds a row only if it gains more than it costs:
 * TREE_ROWS_STREAMED and TREE_DEPTH_STREAMED where env->streams. */
uint32_t tree_decode_rows_weighed(const struct method_env *);
uint32_t tree_depth_weighed(const struct method_env *);

#endif
