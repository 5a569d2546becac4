/*
 * Progressive graph switching: a schedule for replacing each block's prefill
 * graph by its decode graph while a prompt is computed (sd.npu: Chen et al.,
 * "Accelerating mobile language model via speculative decoding and
 * NPU-coordinated execution", section 3.2 and figure 8).
 *
 * A prompt of C chunks takes C * N executions of N blocks, one after the other,
 * chunk by chunk. Each block starts with its prefill graph; its decode graph is
 * loaded once, and then computes the remaining chunks in several calls each.
 * The loader runs one load at a time, in parallel with the executions of other
 * blocks; a block computes nothing while it is loaded. The goal is the earliest
 * end of all executions and loads.
 *
 * A load begins between two executions, or after the last one, and never before
 * the previous load has ended: an execution that has loads before it waits
 * until the last of these has begun, and an execution of a block that is being
 * loaded until the load has ended. This reproduces the paper's figure 8 for all
 * three of its schemes.
 *
 * Pure functions over plans, in any unit of time whose sums fit into 64 bits.
 * Any thread.
 */
#ifndef HOST_SESSION_GRAPH_SWITCH_H
#define HOST_SESSION_GRAPH_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum graph_switch {
	SWITCH_OFF,   /* both graphs stay loaded: no plan */
	SWITCH_SYNC,  /* all loads after the prompt */
	SWITCH_ASYNC, /* each load after its block's part of the last chunk */
	/* the paper's equation 2: loads that can be hidden wholly */
	SWITCH_GREEDY,
	SWITCH_PARTIAL, /* the same, and loads that can be hidden in part */
	SWITCH_BEST,    /* the optimum, or close to it */
	SWITCH_COUNT
};
extern const char *const graph_switch_names[SWITCH_COUNT + 1]; /* NULL-ended */

#define SWITCH_BLOCKS 64

struct switch_problem {
	uint32_t blocks, chunks; /* 1 to SWITCH_BLOCKS; at least 1 */
	const uint64_t *load;    /* [blocks] time to load the decode graph */
	/* [chunks][blocks]: time of an execution with either graph. */
	const uint64_t *prefill, *decode;
	const bool *switched; /* [blocks] already switched; NULL: none */
};

struct switch_load {
	uint32_t block;
	/* execution chunk * blocks + block; chunks * blocks: after all */
	uint32_t before;
};

struct switch_plan {
	uint32_t n_loads;
	struct switch_load load[SWITCH_BLOCKS]; /* `before` ascends */
};

/*
 * Plan one load for each block that is not switched yet. SWITCH_BEST is exact,
 * by dynamic programming over (execution, set of switched blocks), up to 16
 * blocks and SWITCH_STATES such states; beyond, it is the best of the other
 * schemes, the last two also started at every later execution. -ENOMEM.
 */
#define SWITCH_STATES (UINT64_C(1) << 22) /* half a second of planning */
int switch_plan(struct switch_plan *, const struct switch_problem *,
	enum graph_switch, struct err *);

struct switch_times {
	uint64_t begin, end;
};

struct switch_outcome {
	uint64_t prefill_end, loads_end;
	uint64_t makespan; /* the later of them */
	uint64_t waited;   /* time that executions waited for loads */
};

/*
 * Simulate a plan. run[chunks * blocks] and load[n_loads] receive the times of
 * executions and loads, in order; NULL: not needed.
 */
void switch_simulate(const struct switch_problem *, const struct switch_plan *,
	struct switch_outcome *, struct switch_times *run,
	struct switch_times *load);

#endif
