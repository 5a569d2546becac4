/* Options for the size of drafted trees, for all methods that draft trees. */
#ifndef HOST_SCHEDULER_TREE_OPTIONS_H
#define HOST_SCHEDULER_TREE_OPTIONS_H

#include "base/opt.h"

#include <stdint.h>

struct method_env;

/*
 * Default sizes. On an NPU additional rows are nearly free, because an NPU
 * computes whole tiles. Additional rows are also nearly free in a pass that
 * waits for flash, so with streamed layers a method that weighs the cost of
 * rows may use TREE_ROWS_STREAMED rows. A method that weighs the cost of rows
 * may always use deeper trees (TREE_DEPTH_WEIGHED), for drafts that are nearly
 * certain. On CPUs, with the model in memory, 8 rows take 2 to 3 times as long
 * as one row, and 64 rows about 15 times (docs/performance.md). A tree of 64
 * rows then costs more time than it can gain, so the default there is
 * TREE_ROWS_CPU.
 */
#define TREE_ROWS          64
#define TREE_ROWS_CPU      8
#define TREE_ROWS_STREAMED 256
#define TREE_ROWS_MOST     256
#define TREE_DEPTH         12
#define TREE_DEPTH_WEIGHED 32

struct tree_options {
	/*
	 * rows: maximum number of rows of a tree, including the root; if a
	 * request has many samples, maximum number of rows of the trees of all
	 * samples together. depth: maximum number of levels of a tree. For
	 * both, 0 means the method's default.
	 */
	uint32_t rows;
	uint32_t depth;
	/* number of likely next tokens that are tried as children of each
	 * node */
	uint32_t candidates;
};
extern const struct opt_table tree_table;

/* The option tables of a method whose only table is tree_table. */
extern const struct opt_table *const tree_tables[];

/*
 * tree_decode_rows returns the number of rows of the decode graph (the NPU
 * graph for passes that decode), which has as many rows as the largest tree has
 * nodes: --tree-rows, by default TREE_ROWS or TREE_ROWS_CPU. tree_depth returns
 * the depth of the largest tree: --tree-depth, by default TREE_DEPTH.
 */
uint32_t tree_decode_rows(const struct method_env *);
uint32_t tree_depth(const struct method_env *);

/*
 * Like tree_decode_rows and tree_depth, but for a method that adds a row only
 * if the row gains more than it costs. The defaults are TREE_ROWS_STREAMED rows
 * if env->streams is set, else TREE_ROWS rows, and the depth
 * TREE_DEPTH_WEIGHED.
 */
uint32_t tree_decode_rows_weighed(const struct method_env *);
uint32_t tree_depth_weighed(const struct method_env *);

#endif
