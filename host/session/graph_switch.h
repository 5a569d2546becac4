/*
 * Progressive graph switching: a schedule for replacing the prefill graph (for
 * many rows) of each block of layers by the decode graph (for few rows) while a
 * prompt is computed (sd.npu: Chen et al., "Accelerating mobile language model
 * via speculative decoding and NPU-coordinated execution", section 3.2 and
 * figure 8).
 *
 * An execution is the computation of one chunk of the prompt by one block. A
 * prompt of C chunks on a model of N blocks takes C * N executions, one after
 * the other, chunk by chunk. Each block starts with its prefill graph. Its
 * decode graph is loaded once and then computes the block's remaining chunks,
 * in several calls per chunk. Graphs are loaded one at a time, in parallel with
 * executions of other blocks; a block cannot be executed while its graph is
 * loaded. The goal is to end all executions and loads as early as possible.
 *
 * A load begins between two executions or after the last execution, and never
 * before the previous load has ended. If loads are scheduled before an
 * execution, the execution starts only after the last of these loads has begun.
 * An execution of a block whose graph is being loaded waits until the load has
 * ended.
 * With these rules the schemes SWITCH_SYNC, SWITCH_ASYNC and SWITCH_GREEDY take
 * the times of the three schemes in the paper's figure 8.
 *
 * The functions have no state, and may be called on any thread. Times can be in
 * any unit in which sums of times fit into 64 bits.
 */
#ifndef HOST_SESSION_GRAPH_SWITCH_H
#define HOST_SESSION_GRAPH_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum graph_switch {
	SWITCH_OFF,  /* no loads: both graphs of a block stay loaded */
	SWITCH_SYNC, /* all loads take place after the prompt */
	/* a block's load follows the block's execution for the last chunk */
	SWITCH_ASYNC,
	/* equation 2 of the paper: a load begins only if it takes no longer
	 * than the executions that run in parallel with it */
	SWITCH_GREEDY,
	/* like SWITCH_GREEDY, but a load may also take longer than the
	 * executions in parallel with it */
	SWITCH_PARTIAL,
	SWITCH_BEST, /* the optimal plan, or a plan close to the optimum */
	SWITCH_COUNT
};
/* names of the schemes; the last entry is NULL */
extern const char *const graph_switch_names[SWITCH_COUNT + 1];

#define SWITCH_BLOCKS 64

struct switch_problem {
	/* blocks: 1 to SWITCH_BLOCKS; chunks: at least 1 */
	uint32_t blocks, chunks;
	/* [blocks] time to load each block's decode graph */
	const uint64_t *load;
	/* [chunks][blocks] time of each execution. prefill: with the prefill
	 * graph. decode: with the decode graph. */
	const uint64_t *prefill, *decode;
	/* [blocks] whether the block already has its decode graph; NULL if no
	 * block has */
	const bool *switched;
};

struct switch_load {
	uint32_t block;
	/* Number of the execution before which the load takes place. The
	 * execution of chunk c by block b has the number c * blocks + b. The
	 * value chunks * blocks means after all executions. */
	uint32_t before;
};

struct switch_plan {
	uint32_t n_loads;
	/* in ascending order of `before` */
	struct switch_load load[SWITCH_BLOCKS];
};

/*
 * Plan one load for each block that does not have its decode graph yet.
 * SWITCH_BEST is exact (dynamic programming over pairs of an execution and the
 * set of switched blocks) for up to 16 blocks and up to SWITCH_STATES such
 * pairs. For larger problems SWITCH_BEST returns the best plan of the other
 * schemes; SWITCH_GREEDY and SWITCH_PARTIAL are then tried with each execution
 * as the first execution before which a load may begin. Returns 0 or -ENOMEM.
 */
/* maximum number of pairs of an execution and a set of switched blocks for
 * which SWITCH_BEST is exact; with this number, planning takes half a second */
#define SWITCH_STATES (UINT64_C(1) << 22)
int switch_plan(struct switch_plan *, const struct switch_problem *,
	enum graph_switch, struct err *);

struct switch_times {
	uint64_t begin, end;
};

/*
 * Simulate a plan. Returns the time at which all executions and all loads have
 * ended. run[chunks * blocks] receives the times of the executions in order,
 * load[n_loads] the times of the loads in the order of the plan. Either array
 * may be NULL.
 */
uint64_t switch_simulate(const struct switch_problem *,
	const struct switch_plan *, struct switch_times *run,
	struct switch_times *load);

#endif
